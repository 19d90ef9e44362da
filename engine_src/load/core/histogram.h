#pragma once

// Histogram: log-linear latencies with three significant digits (the width of a bucket is at most
// 1/1024 of its value) in a fixed layout, so histograms of two processes merge by adding counts of
// equal buckets.
//
// Values are nanoseconds. Threads: not thread-safe: one per thread, merged when the threads have
// ended. record() never allocates. Values above kMaxValue (about 18 minutes) count in the last
// bucket; max() and mean() stay exact.
//
// HdrHistogram_c has the same buckets and takes 1.03 to 1.09 times as long for a value. It is not
// used: its maximum and mean are those of buckets, so a class around it would be as long as this.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "types/log_linear.h"

namespace kv::load {

class Histogram {
  public:
    static constexpr unsigned kSubBits = 11;  // 2048 linear values, then 1024 buckets per doubling
    static constexpr unsigned kMaxBits = 40;
    static constexpr std::uint64_t kMaxValue = (std::uint64_t{1} << kMaxBits) - 1;
    static constexpr std::size_t kBuckets = LogLinear<kSubBits>::buckets(kMaxBits);

    Histogram();

    void record(std::uint64_t value, std::uint64_t times = 1) noexcept;
    void merge(const Histogram& other) noexcept;
    void clear() noexcept;

    std::uint64_t count() const noexcept { return count_; }
    std::uint64_t max() const noexcept { return max_; }
    double mean() const noexcept;

    /// Returns the largest value that shares a bucket with the smallest recorded value v such that
    /// at least `percent` % of all values are <= v; never above max(). 0 if nothing was recorded.
    /// Precondition: 0 < percent <= 100.
    std::uint64_t percentile(double percent) const noexcept;

    /// Returns (largest value of the bucket, count) of every used bucket, ascending.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> buckets() const;

    static std::size_t indexOf(std::uint64_t value) noexcept;
    static std::uint64_t upperValue(std::size_t index) noexcept;

  private:
    std::vector<std::uint64_t> counts_;
    std::uint64_t count_ = 0;
    std::uint64_t max_ = 0;
    double sum_ = 0;
};

}  // namespace kv::load
