// UnsentBytes: what all streams of a bucket have read that is not sent yet.
//
// One stream alone has a bound of its own, but a client may open one for each vBucket, many clients
// may do so at once, and what they have read stays in memory although the log has let go of it. Who
// finds the budget spent goes on by little steps, so that a client that does not read keeps nobody
// else from being served.
//
// Ownership: outlives the shares. Threads: any; a share is its stream's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace kv::dcp {

class UnsentBytes {
  public:
    UnsentBytes() = default;
    UnsentBytes(const UnsentBytes&) = delete;
    UnsentBytes& operator=(const UnsentBytes&) = delete;

    /// A stream that is being read or sent may differ from it by kStep.
    [[nodiscard]] size_t held() const { return held_.load(std::memory_order_relaxed); }
    static constexpr size_t kStep = size_t{8} << 10;

    /// What one stream holds. The sum is told in steps: a line that all front-end threads write for
    /// each message would be one that they wait for.
    class Share {
      public:
        explicit Share(UnsentBytes& all) : all_(all) {}
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { giveBackAll(); }

        void take(size_t bytes) {
            bytes_ += bytes;
            if (bytes_ >= told_ + kStep) {
                tell();
            }
        }
        void giveBack(size_t bytes) {
            bytes_ -= std::min(bytes, bytes_);
            if (bytes_ == 0 || told_ >= bytes_ + kStep) {
                tell();
            }
        }
        void giveBackAll() {
            bytes_ = 0;
            tell();
        }
        /// Adds to the sum what it does not hold yet: when enough has been read.
        void tell() {
            if (bytes_ != told_) {
                all_.held_.fetch_add(bytes_ - told_, std::memory_order_relaxed);  // may wrap: less
                told_ = bytes_;
            }
        }
        [[nodiscard]] size_t bytes() const { return bytes_; }
        /// Of all streams, with what this one has not told.
        [[nodiscard]] size_t sum() const { return all_.held() - told_ + bytes_; }

      private:
        UnsentBytes& all_;
        size_t bytes_{0};
        size_t told_{0};
    };

  private:
    std::atomic<size_t> held_{0};
};

}  // namespace kv::dcp
