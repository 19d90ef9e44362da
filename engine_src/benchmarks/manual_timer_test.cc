#include "benchmarks/manual_timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace kv::bench {
namespace {

TEST(ManualTimer, ASectionTooShortForTheClockCountsAsATick) {
    // Half of all empty sections read no more than the clock's own cost, which is their median.
    std::vector<double> readings(10'001);
    for (auto& reading : readings) {
        reading = timed([] {});
    }
    EXPECT_EQ(*std::min_element(readings.begin(), readings.end()), kTickSeconds);
}

TEST(ManualTimer, ALongSectionHasItsTimeWithoutTheClocksCost) {
    constexpr auto kPause = std::chrono::milliseconds(20);
    EXPECT_GE(timed([&] { std::this_thread::sleep_for(kPause); }),
              std::chrono::duration<double>(kPause).count() - emptySectionSeconds());
}

}  // namespace
}  // namespace kv::bench
