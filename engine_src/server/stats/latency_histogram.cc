#include "server/stats/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kv::server {

void LatencyHistogram::add(const LatencyHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) {
        bump(counts_[i], other.counts_[i].load(std::memory_order_relaxed));
    }
    bump(total_, other.total_.load(std::memory_order_relaxed));
    max_.store(std::max(max_.load(std::memory_order_relaxed),
                        other.max_.load(std::memory_order_relaxed)),
               std::memory_order_relaxed);
}

void LatencyHistogram::reset() {
    for (auto& cell : counts_) {
        cell.store(0, std::memory_order_relaxed);
    }
    total_.store(0, std::memory_order_relaxed);
    max_.store(0, std::memory_order_relaxed);
}

uint64_t LatencyHistogram::count() const {
    uint64_t sum = 0;
    for (const auto& cell : counts_) {
        sum += cell.load(std::memory_order_relaxed);
    }
    return sum;
}

uint64_t LatencyHistogram::percentile(double share) const {
    const uint64_t all = count();
    const auto wanted = std::max(
            uint64_t{1}, static_cast<uint64_t>(std::ceil(share * static_cast<double>(all))));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
        seen += counts_[i].load(std::memory_order_relaxed);
        if (seen >= wanted) {
            return std::min(Layout::upperOf(i), max_.load(std::memory_order_relaxed));
        }
    }
    return 0;
}

std::string LatencyHistogram::toJson() const {
    nlohmann::ordered_json json;
    const uint64_t all = count();
    json["count"] = all;
    json["mean"] = all == 0 ? 0.0
                            : static_cast<double>(total_.load(std::memory_order_relaxed)) /
                                      static_cast<double>(all);
    json["max"] = max_.load(std::memory_order_relaxed);
    json["p50"] = percentile(0.50);
    json["p90"] = percentile(0.90);
    json["p95"] = percentile(0.95);
    json["p99"] = percentile(0.99);
    json["p99_9"] = percentile(0.999);
    auto& buckets = json["buckets"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < kBuckets; ++i) {
        if (const uint64_t n = counts_[i].load(std::memory_order_relaxed); n != 0) {
            buckets.push_back({Layout::upperOf(i), n});
        }
    }
    return json.dump();
}

}  // namespace kv::server
