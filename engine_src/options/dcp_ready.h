// Build switch ENGINE_DCP_READY: how a DCP producer knows which vBuckets have something to send:
// the four designs of the historic change. Each has its header, dcp_ready_*.h.
//
//   onelock     one mutex of the producer covers the list, the stream map and the whole of step();
//               every notification searches the list linearly (before)
//   roundrobin  a flag per vBucket, scanned from where the last scan stopped; the flow-control
//   check
//               is made at every slot
//   readyqueue  a queue and a lookup of its members behind a separate mutex (after): a bitmap, or
//               with -set, -hash and -list what their name says (dcp_ready_lookup.h)
//   lockfree    a bounded queue and a flag per vBucket, no lock (the later design)
//
// Contract of all: pushUnique(vb) returns true if vb was not in the list before. Writes of a
// notifier before its pushUnique are visible to the thread that pops vb next. A vb that is pushed
// after it was popped is popped again (no lost wake-up). pop(isFull) calls isFull() at the points
// where its historic design did, and leaves the list unchanged if full. Nothing fails, not even
// without memory: front-end threads push after the mutation is done. Threads: any may push; one at
// a time pops (the producer's step). OneLock is called only under its own mutex().
#pragma once

#include "options/dcp_ready_lock_free.h"
#include "options/dcp_ready_one_lock.h"
#include "options/dcp_ready_queue.h"
#include "options/dcp_ready_round_robin.h"
