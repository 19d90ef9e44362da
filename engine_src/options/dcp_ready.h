// Build switch ENGINE_DCP_READY: how a DCP producer knows which vBuckets have something to send:
// the four designs of the historic change. Each has its header, dcp_ready_*.h.
//
//   onelock     one mutex of the producer covers the list, the stream map and the whole of step();
//               the list is searched linearly by every notification (before)
//   roundrobin  a flag a vBucket, scanned from where the last scan stopped; the flow-control check
//               is made at every slot
//   readyqueue  a queue and a lookup of its members behind a mutex of its own (after): a bitmap, or
//               with -set, -hash and -list what their name says (dcp_ready_lookup.h)
//   lockfree    a bounded queue and a flag a vBucket, no lock (the later design)
//
// Contract of all: pushUnique(vb) returns true when vb was not in the list before; what a
// notifier wrote before its pushUnique is visible to whoever pops vb afterwards; a vb that is
// pushed after it was popped is popped again (no lost wake-up). pop(isFull) asks isFull() at the
// points where its historic design did, and leaves the list as it was when full. Nothing of it
// fails, for want of memory neither: front-end threads push with the mutation done. Threads: any
// may push; one at a time pops (the producer's step). OneLock is called under its own mutex() only.
#pragma once

#include "options/dcp_ready_lock_free.h"
#include "options/dcp_ready_one_lock.h"
#include "options/dcp_ready_queue.h"
#include "options/dcp_ready_round_robin.h"
