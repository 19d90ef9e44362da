// CheckpointMemory: the bytes that one vBucket's checkpoints and their items account for.
//
// It has two sums that only grow, so that threads that write and threads that free do not wait for
// each other: bytes are added under the queue lock and released by the thread that frees. Threads:
// any may read.
#pragma once

#include <atomic>
#include <cstddef>

namespace kv {

class CheckpointMemory {
  public:
    /// The caller holds the queue lock.
    void add(size_t bytes) {
        added_.store(added_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    }
    void release(size_t bytes) { released_.fetch_add(bytes, std::memory_order_relaxed); }
    /// Without extracted checkpoints that are already freed.
    [[nodiscard]] size_t bytes() const {
        return added_.load(std::memory_order_relaxed) - released_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<size_t> added_{0};
    std::atomic<size_t> released_{0};
};

}  // namespace kv
