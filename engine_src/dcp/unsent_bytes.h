// UnsentBytes: counts the bytes that all streams of a bucket have read and not sent.
//
// Each stream has a limit. But a client may open one stream for each vBucket, many clients may do
// so at once, and the items stay in memory although the log has released them. When the budget is
// spent, streams continue in small steps, so a client that does not read does not keep others from
// being served.
//
// Ownership: outlives the shares. Threads: any; a share belongs to its stream.
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

    /// A stream that is being read or sent may differ from this by kStep.
    [[nodiscard]] size_t held() const { return held_.load(std::memory_order_relaxed); }
    static constexpr size_t kStep = size_t{8} << 10;

    /// The bytes of one stream. The sum is updated in steps: otherwise all front-end threads would
    /// write the same cache line for each message.
    class Share {
      public:
        explicit Share(UnsentBytes& all) : all_(all) {}
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { giveBackAll(); }

        void take(size_t bytes) {
            bytes_ += bytes;
            if (bytes_ >= published_ + kStep) {
                publish();
            }
        }
        void giveBack(size_t bytes) {
            bytes_ -= std::min(bytes, bytes_);
            if (bytes_ == 0 || published_ >= bytes_ + kStep) {
                publish();
            }
        }
        void giveBackAll() {
            bytes_ = 0;
            publish();
        }
        /// Adds the bytes that the sum does not include yet, if there are enough.
        void publish() {
            if (bytes_ != published_) {
                // Wraps if the bytes have become fewer.
                all_.held_.fetch_add(bytes_ - published_, std::memory_order_relaxed);
                published_ = bytes_;
            }
        }
        [[nodiscard]] size_t bytes() const { return bytes_; }
        /// The bytes of all streams, including those of this one that the sum does not include.
        [[nodiscard]] size_t sum() const { return all_.held() - published_ + bytes_; }

      private:
        UnsentBytes& all_;
        size_t bytes_{0};
        size_t published_{0};
    };

  private:
    std::atomic<size_t> held_{0};
};

}  // namespace kv::dcp
