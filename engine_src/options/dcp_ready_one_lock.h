// The ready list behind the producer's one lock (dcp_ready.h).
#pragma once

#include <mutex>
#include <string_view>

#include "options/ready_list.h"

namespace kv::options {

/// The list as it was inside the one lock: first in, first out, searched from its head.
class OneLockReady {
  public:
    static constexpr std::string_view kName = "onelock";
    static constexpr bool kOneLock = true;
    explicit OneLockReady(size_t vbuckets) : list_(vbuckets) {}

    std::mutex& mutex() { return mutex_; }

    bool pushUnique(Vbid vbid) {
        if (list_.contains(vbid)) {
            return false;
        }
        list_.push(vbid);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        if (list_.size() == 0) {
            return {};
        }
        if (isFull()) {
            return {Pop::Full, {}};
        }
        return {Pop::Ready, list_.pop()};
    }

    [[nodiscard]] bool empty() const { return list_.size() == 0; }

  private:
    std::mutex mutex_;
    VbidRing list_;
};

}  // namespace kv::options
