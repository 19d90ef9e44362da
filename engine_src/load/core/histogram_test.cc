#include "load/core/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "load/core/random.h"

namespace kv::load {
namespace {

TEST(Histogram, IndexAndUpperValueAreInverseAndWithoutGaps) {
    for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
        const auto upper = Histogram::upperValue(i);
        ASSERT_EQ(Histogram::indexOf(upper), i);
        if (i + 1 < Histogram::kBuckets) {
            ASSERT_EQ(Histogram::indexOf(upper + 1), i + 1);
        }
    }
    EXPECT_EQ(Histogram::upperValue(Histogram::kBuckets - 1), Histogram::kMaxValue);
    EXPECT_EQ(Histogram::indexOf(~std::uint64_t{0}), Histogram::kBuckets - 1);
}

TEST(Histogram, KeepsThreeSignificantDigits) {
    Random random(1);
    for (int i = 0; i < 100000; ++i) {
        const auto value = random.next() >> (24 + random.below(40));
        const auto upper = Histogram::upperValue(Histogram::indexOf(value));
        ASSERT_GE(upper, value);
        ASSERT_LE(static_cast<double>(upper - value), static_cast<double>(value) / 1000.0);
    }
}

TEST(Histogram, PercentilesOfSmallValuesAreExact) {
    Histogram histogram;
    for (std::uint64_t v = 1; v <= 1000; ++v) {
        histogram.record(v);
    }
    EXPECT_EQ(histogram.percentile(50), 500U);
    EXPECT_EQ(histogram.percentile(90), 900U);
    EXPECT_EQ(histogram.percentile(99), 990U);
    EXPECT_EQ(histogram.percentile(99.9), 999U);
    EXPECT_EQ(histogram.percentile(100), 1000U);
    EXPECT_EQ(histogram.percentile(0.0001), 1U);
    EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
    EXPECT_EQ(histogram.max(), 1000U);
}

TEST(Histogram, PercentilesAgreeWithSortedDataToThreeDigits) {
    Histogram histogram;
    std::vector<std::uint64_t> all;
    Random random(7);
    for (int i = 0; i < 50000; ++i) {
        const auto value = 1000 + (random.next() >> (34 + random.below(10)));
        all.push_back(value);
        histogram.record(value);
    }
    std::sort(all.begin(), all.end());
    for (const double p : {1.0, 25.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0}) {
        const auto rank =
                static_cast<std::size_t>(std::ceil(static_cast<double>(all.size()) * p / 100.0));
        const auto exact = static_cast<double>(all[rank - 1]);
        const auto got = static_cast<double>(histogram.percentile(p));
        EXPECT_GE(got, exact) << p;
        EXPECT_LE(got, exact * 1.001) << p;
    }
}

TEST(Histogram, MergeEqualsRecordingEverythingInOne) {
    Histogram a;
    Histogram b;
    Histogram both;
    Random random(3);
    for (int i = 0; i < 10000; ++i) {
        const auto value = random.below(10'000'000);
        const auto times = 1 + random.below(3);
        (i % 3 == 0 ? a : b).record(value, times);
        both.record(value, times);
    }
    a.merge(b);
    EXPECT_EQ(a.count(), both.count());
    EXPECT_EQ(a.max(), both.max());
    EXPECT_EQ(a.buckets(), both.buckets());
    EXPECT_NEAR(a.mean(), both.mean(), 1e-6 * both.mean());
}

TEST(Histogram, EmptyAndHugeAndZeroTimes) {
    Histogram histogram;
    EXPECT_EQ(histogram.percentile(99), 0U);
    EXPECT_EQ(histogram.mean(), 0.0);
    EXPECT_TRUE(histogram.buckets().empty());
    histogram.record(5, 0);
    EXPECT_EQ(histogram.count(), 0U);
    EXPECT_EQ(histogram.max(), 0U);
    histogram.record(Histogram::kMaxValue * 4);
    EXPECT_EQ(histogram.percentile(50), Histogram::kMaxValue * 4);
}

}  // namespace
}  // namespace kv::load
