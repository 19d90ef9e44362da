#include "server/stats/latency_histogram.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kv::server {
namespace {

TEST(LatencyHistogram, BucketsCoverEveryValueOnce) {
    uint64_t previousUpper = 0;
    for (size_t bucket = 1; bucket < LatencyHistogram::kBuckets; ++bucket) {
        const uint64_t upper = LatencyHistogram::Layout::upperOf(bucket);
        EXPECT_EQ(LatencyHistogram::Layout::bucketOf(upper), bucket);
        EXPECT_EQ(LatencyHistogram::Layout::bucketOf(previousUpper + 1), bucket)
                << "a gap or an overlap";
        previousUpper = upper;
    }
    EXPECT_EQ(previousUpper, UINT64_MAX);
}

TEST(LatencyHistogram, PercentilesAreWithinABucketOfTheTruth) {
    LatencyHistogram histogram;
    for (uint64_t nanos = 1; nanos <= 100'000; ++nanos) {
        histogram.record(nanos);
    }
    EXPECT_EQ(histogram.count(), 100'000U);
    EXPECT_NEAR(static_cast<double>(histogram.percentile(0.5)), 50'000, 50'000 / 16.0);
    EXPECT_NEAR(static_cast<double>(histogram.percentile(0.99)), 99'000, 99'000 / 16.0);
    EXPECT_EQ(histogram.percentile(1.0), 100'000U) << "never above the largest value";
}

TEST(LatencyHistogram, MergesAndResets) {
    LatencyHistogram one;
    LatencyHistogram two;
    EXPECT_EQ(one.percentile(0.5), 0U);
    one.record(10);
    two.record(1000);
    one.add(two);
    const auto json = nlohmann::json::parse(one.toJson());
    EXPECT_EQ(json["count"], 2);
    EXPECT_EQ(json["max"], 1000);
    EXPECT_EQ(json["mean"], 505.0);
    EXPECT_EQ(json["buckets"].size(), 2U);
    EXPECT_EQ(json["buckets"][0], nlohmann::json::array({10, 1}));
    one.reset();
    EXPECT_EQ(one.count(), 0U);
}

}  // namespace
}  // namespace kv::server
