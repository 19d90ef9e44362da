#include "slices/rounds.h"

#include <gtest/gtest.h>

namespace kv::slices {
namespace {

constexpr double kWanted = 2e6;  // 2 ms

TEST(SliceSize, FindsTheSizeInFewSlices) {
    for (const double ns : {0.5, 40.0, 700.0, 1.9e6}) {
        SliceSize size(kWanted);
        int slices = 0;
        for (; !size.settled(); ++slices) {
            const auto iterations = size.iterations();
            size.learn(iterations, static_cast<double>(iterations) * ns);
        }
        EXPECT_LE(slices, 9) << ns;
        const double length = static_cast<double>(size.iterations()) * ns;
        EXPECT_NEAR(length, kWanted, 0.06 * kWanted) << ns;
    }
}

TEST(SliceSize, ASliceOfOneIterationIsNeverTooLong) {
    SliceSize size(kWanted);
    size.learn(1, 5e9);
    EXPECT_TRUE(size.settled());
    EXPECT_EQ(size.iterations(), 1);
    size.learn(1, 5e9);
    EXPECT_EQ(size.iterations(), 1);
}

TEST(SliceSize, OneHiccupIsForgotten) {
    SliceSize size(kWanted);
    const auto learn = [&](double ns) {
        const auto iterations = size.iterations();
        size.learn(iterations, static_cast<double>(iterations) * ns);
    };
    for (int i = 0; i < 10; ++i) {
        learn(1000);
    }
    EXPECT_NEAR(static_cast<double>(size.iterations()), 2000, 20);
    learn(1e6);  // a thousand times slower, once
    EXPECT_GE(size.iterations(), 500);
    for (int i = 0; i < 8; ++i) {
        learn(1000);
    }
    EXPECT_NEAR(static_cast<double>(size.iterations()), 2000, 100);
}

}  // namespace
}  // namespace kv::slices
