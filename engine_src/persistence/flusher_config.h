// How a Flusher goes about its work.
#pragma once

#include <chrono>
#include <cstddef>

namespace kv {

struct FlusherConfig {
    size_t batchItems{
            1'000'000};  ///< flusher_batch_split_trigger: items of a transaction, whole checkpoints
    /// Bytes of one vBucket's part of a transaction, which holds a copy of all that it writes.
    size_t batchBytes{size_t{64} << 20};
    std::chrono::nanoseconds retryDelay{std::chrono::seconds(1)};  ///< after a failed transaction
    /// flusher_interval_ms: shortest time from the start of one pass over the dirty vBuckets to the
    /// next. Longer: more mutations of a key become one write, and fewer transactions.
    std::chrono::nanoseconds interval{std::chrono::milliseconds(100)};
    size_t vbucketsPerRun{64};  ///< then other tasks of the pool get their turn
};

}  // namespace kv
