// How a DCP producer knows which vBuckets have something to send: the four designs of the historic
// change. Each has its header, dcp_ready_*.h.
//
//   onelock     one mutex of the producer covers the list, the stream map and the whole of step();
//               the list is searched linearly by every notification (before)
//   roundrobin  a flag a vBucket, scanned from where the last scan stopped; the flow-control check
//               is made at every slot
//   readyqueue  a queue and a lookup of its members behind a mutex of its own (after)
//   lockfree    a bounded queue and a flag a vBucket, no lock (the later design)
//
// Contract of all four: pushUnique(vb) returns true when vb was not in the list before; what a
// notifier wrote before its pushUnique is visible to whoever pops vb afterwards; a vb that is
// pushed after it was popped is popped again (no lost wake-up). pop(isFull) asks isFull() at the
// points where its historic design did, and leaves the list as it was when full. Threads: any may
// push; one at a time pops (the producer's step). OneLock is called under its own mutex() only.
#pragma once

#include <type_traits>

#include "options/choice.h"
#include "options/dcp_ready_lock_free.h"
#include "options/dcp_ready_one_lock.h"
#include "options/dcp_ready_queue.h"
#include "options/dcp_ready_round_robin.h"
#include "options/selected/dcp.h"

namespace kv::options {

using DcpReady = std::conditional_t<
        is(KV_SELECTED_DCP_READY, "onelock"), OneLockReady,
        std::conditional_t<is(KV_SELECTED_DCP_READY, "roundrobin"), RoundRobinReady,
                           std::conditional_t<is(KV_SELECTED_DCP_READY, "lockfree"), LockFreeReady,
                                              QueueReady>>>;
static_assert(is(KV_SELECTED_DCP_READY, DcpReady::kName));

}  // namespace kv::options
