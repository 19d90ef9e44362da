// The settings of a Flusher.
#pragma once

#include <chrono>
#include <cstddef>

namespace kv {

struct FlusherConfig {
    size_t batchItems{
            1'000'000};  ///< flusher_batch_split_trigger: items of a transaction, whole checkpoints
    /// Bytes of one vBucket's part of a transaction, which holds a copy of everything that it
    /// writes.
    size_t batchBytes{size_t{64} << 20};
    std::chrono::nanoseconds retryDelay{std::chrono::seconds(1)};  ///< after a failed transaction
    /// flusher_interval_ms: shortest time between the starts of two passes over the dirty vBuckets.
    /// Longer: more mutations of a key become one write, and there are fewer transactions.
    std::chrono::nanoseconds interval{std::chrono::milliseconds(100)};
    size_t vbucketsPerRun{64};  ///< after that, other tasks of the pool run
};

}  // namespace kv
