// The ready list as flags that are scanned in rotation (dcp_ready.h).
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include "options/ready_list.h"

namespace kv::options {

class RoundRobinReady {
  public:
    static constexpr std::string_view kName = "roundrobin";
    static constexpr bool kOneLock = false;
    explicit RoundRobinReady(size_t vbuckets) : ready_(vbuckets) {}

    bool pushUnique(Vbid vbid) {
        if (ready_[vbid.get()].exchange(true, std::memory_order_acq_rel)) {
            return false;
        }
        notified_.store(true, std::memory_order_release);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        // A flag raised behind the scan leaves notified_ set: scan again before reporting that
        // nothing is ready.
        do {
            for (size_t scanned = 0; scanned < ready_.size(); ++scanned) {
                if (isFull()) {
                    return {Pop::Full, {}};
                }
                const size_t index = next_;
                next_ = next_ + 1 == ready_.size() ? 0 : next_ + 1;
                bool expected = true;
                if (ready_[index].compare_exchange_strong(expected, false,
                                                          std::memory_order_acq_rel)) {
                    return {Pop::Ready, Vbid{static_cast<uint16_t>(index)}};
                }
            }
        } while (notified_.exchange(false, std::memory_order_acq_rel));
        return {};
    }

    [[nodiscard]] bool empty() const {
        for (const auto& flag : ready_) {
            if (flag.load(std::memory_order_acquire)) {
                return false;
            }
        }
        return true;
    }

  private:
    std::vector<std::atomic<bool>> ready_;
    std::atomic<bool> notified_{false};
    size_t next_{0};
};

}  // namespace kv::options
