// Producer: one DCP connection's sending side. Streams of many vBuckets, one flow control, one
// ready list.
//
// The ready list and the snapshot queue are policies (options/dcp_ready.h,
// options/dcp_snapshot_*.h). The historic designs differ in where snapshots are made: with the one
// lock, step() reads the checkpoints itself while it holds the lock that every front-end
// notification needs (one_lock_producer.h); in all others a background task does, and step() only
// hands out what is ready (ready_list_producer.h). What they share is in producer_base.h.
//
// Threads: step() by one thread at a time (the connection's); onSeqno() by front-end threads with
// no bucket lock held; runSnapshots() and runBackfills() by background tasks, one at a time each;
// everything else by any thread. Wake-ups: step() that returns nothing leaves the producer paused;
// ProducerHooks::wakeConnection is called once when there is something again. No wake-up is lost:
// whoever lists a stream tests the pause flag afterwards, and step() raises the flag before it
// looks at the list for the last time.
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
