#include "load/core/histogram.h"

#include <algorithm>
#include <cmath>

namespace kv::load {

Histogram::Histogram() : counts_(kBuckets, 0) {}

std::size_t Histogram::indexOf(std::uint64_t value) noexcept {
    return LogLinear<kSubBits>::bucketOf(std::min(value, kMaxValue));
}

std::uint64_t Histogram::upperValue(std::size_t index) noexcept {
    return LogLinear<kSubBits>::upperOf(index);
}

void Histogram::record(std::uint64_t value, std::uint64_t times) noexcept {
    if (times == 0) {
        return;
    }
    counts_[indexOf(value)] += times;
    count_ += times;
    max_ = std::max(max_, value);
    sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void Histogram::merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) {
        counts_[i] += other.counts_[i];
    }
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
    sum_ += other.sum_;
}

void Histogram::clear() noexcept {
    std::fill(counts_.begin(), counts_.end(), 0);
    count_ = max_ = 0;
    sum_ = 0;
}

double Histogram::mean() const noexcept {
    return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_);
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
    if (count_ == 0) {
        return 0;
    }
    const double exactRank = std::ceil(static_cast<double>(count_) * percent / 100.0);
    const auto rank = std::clamp(static_cast<std::uint64_t>(exactRank), std::uint64_t{1}, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
        seen += counts_[i];
        if (seen >= rank) {
            // The last bucket also holds values beyond kMaxValue, for which only max() is exact.
            return i + 1 == kBuckets ? max_ : std::min(upperValue(i), max_);
        }
    }
    return max_;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Histogram::buckets() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> used;
    for (std::size_t i = 0; i < kBuckets; ++i) {
        if (counts_[i] != 0) {
            used.emplace_back(upperValue(i), counts_[i]);
        }
    }
    return used;
}

}  // namespace kv::load
