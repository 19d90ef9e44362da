// Build switch ENGINE_DCP_SNAPSHOT_QUEUE: which vBuckets wait for the producer's snapshot task.
//
//   unique      a vBucket waits at most once (after), and new seqnos need no notification while it
//               waits, because the snapshot includes them
//   duplicates  every request waits (before): the task meets the same vBucket again with nothing
//               left to do
// Threads: push and pop from any thread.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "types/ids.h"

namespace kv::options {

class UniqueSnapshotQueue {
  public:
    static constexpr std::string_view kName = "unique";
    static constexpr bool kUnique = true;

    /// Returns false if vbid already waits: the task need not be woken again.
    bool push(Vbid vbid) {
        const std::scoped_lock lock(mutex_);
        const auto [place, added] = members_.insert(vbid);
        if (!added) {
            return false;
        }
        try {
            queue_.push_back(vbid);
        } catch (const std::bad_alloc&) {
            members_.erase(place);
            throw;
        }
        return true;
    }
    std::optional<Vbid> pop() {
        const std::scoped_lock lock(mutex_);
        if (queue_.empty()) {
            return std::nullopt;
        }
        const Vbid vbid = queue_.front();
        queue_.pop_front();
        members_.erase(vbid);
        return vbid;
    }
    [[nodiscard]] size_t size() const {
        const std::scoped_lock lock(mutex_);
        return queue_.size();
    }

  private:
    mutable std::mutex mutex_;
    std::deque<Vbid> queue_;
    std::unordered_set<Vbid> members_;
};

class DuplicatesSnapshotQueue {
  public:
    static constexpr std::string_view kName = "duplicates";
    static constexpr bool kUnique = false;

    bool push(Vbid vbid) {
        const std::scoped_lock lock(mutex_);
        queue_.push_back(vbid);
        return true;
    }
    std::optional<Vbid> pop() {
        const std::scoped_lock lock(mutex_);
        if (queue_.empty()) {
            return std::nullopt;
        }
        const Vbid vbid = queue_.front();
        queue_.pop_front();
        return vbid;
    }
    [[nodiscard]] size_t size() const {
        const std::scoped_lock lock(mutex_);
        return queue_.size();
    }

  private:
    mutable std::mutex mutex_;
    std::deque<Vbid> queue_;
};

}  // namespace kv::options
