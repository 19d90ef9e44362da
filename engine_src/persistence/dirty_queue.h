// DirtyQueue: the vBuckets of a shard that have something to store, each at most once.
//
// Threads: push() from any thread, pop() from the flusher's. No allocation after construction.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "types/ids.h"

namespace kv {

class DirtyQueue {
  public:
    explicit DirtyQueue(size_t vbuckets) : marked_(vbuckets), ring_(vbuckets) {}

    /// Returns true if the queue was empty before: its reader may be asleep.
    bool push(Vbid vbid) noexcept {
        auto& mark = marked_[vbid.get()];
        // The load keeps the cache line shared while the vBucket waits: most mutations end here.
        if (mark.load(std::memory_order_acquire) ||
            mark.exchange(true, std::memory_order_acq_rel)) {
            return false;
        }
        const std::lock_guard lock(mutex_);
        ring_[(first_ + size_) % ring_.size()] = vbid;
        return ++size_ == 1;
    }

    /// Takes the oldest and unmarks it, so that a mutation from now on queues it again. Returns
    /// false if the queue is empty.
    bool pop(Vbid& vbid) noexcept {
        const std::lock_guard lock(mutex_);
        if (size_ == 0) {
            return false;
        }
        vbid = ring_[first_];
        first_ = (first_ + 1) % ring_.size();
        --size_;
        marked_[vbid.get()].store(false, std::memory_order_seq_cst);
        return true;
    }

    [[nodiscard]] size_t size() const noexcept {
        const std::lock_guard lock(mutex_);
        return size_;
    }

  private:
    mutable std::mutex mutex_;
    std::vector<std::atomic<bool>> marked_;
    std::vector<Vbid> ring_;  ///< room for every vBucket, because each is in it at most once
    size_t first_{0};
    size_t size_{0};
};

}  // namespace kv
