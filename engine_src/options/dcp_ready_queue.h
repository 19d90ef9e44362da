// The ready list as a queue with a separate mutex (dcp_ready.h).
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>

#include "options/dcp_ready_lookup.h"
#include "options/ready_list.h"

namespace kv::options {

/// The number of members is readable without the mutex, so that a polling client does not keep
/// notifiers from it. `Lookup`: the members (dcp_ready_lookup.h).
template <class Lookup>
class LookupQueueReady {
  public:
    static constexpr std::string_view kName = Lookup::kName;
    static constexpr bool kOneLock = false;
    explicit LookupQueueReady(size_t vbuckets) : queue_(vbuckets), listed_(vbuckets) {}

    bool pushUnique(Vbid vbid) {
        const std::scoped_lock lock(mutex_);
        if (!listed_.insert(vbid)) {
            return false;
        }
        queue_.push(vbid);
        size_.store(queue_.size(), std::memory_order_release);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        if (empty()) {
            return {};
        }
        const auto front = popFront();
        if (!front) {
            return {};
        }
        if (isFull()) {
            pushUnique(*front);
            return {Pop::Full, {}};
        }
        return {Pop::Ready, *front};
    }

    [[nodiscard]] bool empty() const { return size_.load(std::memory_order_acquire) == 0; }

  private:
    std::optional<Vbid> popFront() {
        const std::scoped_lock lock(mutex_);
        if (queue_.size() == 0) {
            return std::nullopt;
        }
        const Vbid vbid = queue_.pop();
        listed_.eraseOldest(vbid);
        size_.store(queue_.size(), std::memory_order_release);
        return vbid;
    }

    std::mutex mutex_;
    VbidRing queue_;
    Lookup listed_;
    std::atomic<size_t> size_{0};
};

using QueueReady = LookupQueueReady<BitmapLookup>;
using SetQueueReady = LookupQueueReady<SetLookup>;
using HashQueueReady = LookupQueueReady<HashLookup>;
using ListQueueReady = LookupQueueReady<ListLookup>;

}  // namespace kv::options
