// Producer: the sending side of one DCP connection: streams of many vBuckets, one flow control, one
// ready list.
//
// The ready list and the snapshot queue are policies (options/dcp_ready.h,
// options/dcp_snapshot_*.h). The historic designs differ in the place where snapshots are made.
// With the one lock, step() reads the checkpoints itself while it holds the lock that every
// front-end notification needs (one_lock_producer.h). In all others a background task reads them,
// and step() only returns what is ready (ready_list_producer.h). The common parts are in
// producer_base.h.
//
// Threads: step() by one thread at a time (the connection's); onSeqno() by front-end threads with
// no bucket lock held; runSnapshots() and runBackfills() by background tasks, one at a time each;
// everything else by any thread. Wake-ups: a step() that returns nothing leaves the producer
// paused; ProducerHooks::wakeConnection is called once when there is something again. No wake-up is
// lost: a thread that lists a stream tests the pause flag afterwards, and step() sets the flag
// before it looks at the list for the last time.
#pragma once

#include <type_traits>

#include "dcp/one_lock_producer.h"
#include "dcp/ready_list_producer.h"
#include "options/selected/dcp_ready.h"
#include "options/selected/dcp_snapshot_queue.h"
#include "options/selected/dcp_snapshot_yield.h"

namespace kv::dcp {

template <class Ready, class SnapshotQueue, class Yield>
using BasicProducer =
        std::conditional_t<Ready::kOneLock, OneLockProducer<Ready, SnapshotQueue, Yield>,
                           ReadyListProducer<Ready, SnapshotQueue, Yield>>;

using Producer = BasicProducer<options::SelectedDcpReady, options::SelectedDcpSnapshotQueue,
                               options::SelectedDcpSnapshotYield>;

}  // namespace kv::dcp
