// BackfillBudget: how much the backfills of all streams of a bucket may have read that is not sent.
//
// One stream alone has a bound of its own, but a client may open one for each vBucket, and many
// clients at once. Who finds the budget spent goes on by little steps, so that a client that does
// not read keeps nobody else from being served.
//
// Ownership: outlives the shares. Threads: any; a share is its stream's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace kv::dcp {

class BackfillBudget {
  public:
    explicit BackfillBudget(size_t bytes) : bytes_(bytes) {}
    BackfillBudget(const BackfillBudget&) = delete;
    BackfillBudget& operator=(const BackfillBudget&) = delete;

    void set(size_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }
    [[nodiscard]] size_t held() const { return held_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool isSpent() const { return held() >= bytes_.load(std::memory_order_relaxed); }

    /// What one stream holds of it.
    class Share {
      public:
        explicit Share(BackfillBudget& budget) : budget_(budget) {}
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { giveBack(bytes_); }

        void take(size_t bytes) {
            bytes_ += bytes;
            budget_.held_.fetch_add(bytes, std::memory_order_relaxed);
        }
        /// Up to so many bytes, or what it has.
        void giveBack(size_t bytes) {
            const size_t less = std::min(bytes, bytes_);
            bytes_ -= less;
            if (less != 0) {
                budget_.held_.fetch_sub(less, std::memory_order_relaxed);
            }
        }
        [[nodiscard]] size_t bytes() const { return bytes_; }
        [[nodiscard]] bool isSpent() const { return budget_.isSpent(); }

      private:
        BackfillBudget& budget_;
        size_t bytes_{0};
    };

  private:
    std::atomic<size_t> bytes_;
    std::atomic<size_t> held_{0};
};

}  // namespace kv::dcp
