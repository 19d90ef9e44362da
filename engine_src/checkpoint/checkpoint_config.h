// Limits of the checkpoints of a bucket. Immutable while the bucket lives; shared by all its
// CheckpointManagers.
#pragma once

#include <chrono>
#include <cstddef>

namespace kv {

struct CheckpointConfig {
    size_t maxItems{10000};  ///< chk_max_items: live items that close a checkpoint
    /// Bytes that close a checkpoint, also beyond maxCheckpoints: a reader of whole checkpoints,
    /// such as the flusher, then reads little more than this at once. Such extra checkpoints are at
    /// most as many as pieces of that size in the log.
    size_t maxBytes{size_t{32} << 20};
    std::chrono::nanoseconds period{
            std::chrono::seconds(5)};  ///< chk_period: age that closes a non-empty checkpoint
    size_t maxCheckpoints{10};         ///< max_checkpoints per vBucket, the open one included
    std::chrono::nanoseconds removerPeriod{std::chrono::seconds(5)};  ///< chk_remover_stime
    double memoryRatio{0.5};  ///< share of the bucket quota that checkpoints may use
    double upperMark{0.9};    ///< of that share: recovery (expel, cursor drop) starts above
    double lowerMark{0.6};    ///< of that share: recovery stops below
};

}  // namespace kv
