// LatencyHistogram: durations of operations in nanoseconds, in log-linear buckets (16 per power of
// two: about 6 %).
//
// Threads: one thread writes with plain relaxed stores; any thread may read or merge at the same
// time and sees a slightly old state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "types/log_linear.h"

namespace kv::server {

class LatencyHistogram {
  public:
    using Layout = LogLinear<5>;
    static constexpr size_t kBuckets = Layout::buckets(64);

    /// Only the writing thread may call it.
    void record(uint64_t nanos) {
        bump(counts_[Layout::bucketOf(nanos)], 1);
        bump(total_, nanos);
        if (nanos > max_.load(std::memory_order_relaxed)) {
            max_.store(nanos, std::memory_order_relaxed);
        }
    }
    /// Only the writing thread of this histogram may call it; `other` may be written by its own
    /// thread.
    void add(const LatencyHistogram& other);
    /// Any thread; a concurrent record() may survive it.
    void reset();

    [[nodiscard]] uint64_t count() const;
    /// Returns the upper end of the bucket that holds the value at `share` (0..1); 0 if empty.
    [[nodiscard]] uint64_t percentile(double share) const;
    /// Returns {"count","mean","max","p50",...,"buckets":[[upper_ns,count],...]}, the same fields
    /// as the load generators write.
    [[nodiscard]] std::string toJson() const;

  private:
    static void bump(std::atomic<uint64_t>& cell, uint64_t by) {
        cell.store(cell.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }

    std::array<std::atomic<uint64_t>, kBuckets> counts_{};
    std::atomic<uint64_t> total_{0};
    std::atomic<uint64_t> max_{0};
};

}  // namespace kv::server
