#include "load/core/recorder.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace kv::load {
namespace {

TEST(Recorder, AThreadThatNeverBeganDoesNotExtendThePhase) {
    constexpr Nanos kUptime = 1'000'000 * kSecond;
    const Recorder never(0, 0);
    OpCounts answer;
    answer.count(OpKind::kGet, protocol::Status::kSuccess);
    Recorder first(kUptime + 1, 0);
    first.add(kUptime + 2 * kSecond, answer);
    Recorder second(kUptime, 0);
    second.add(kUptime + kSecond / 2, answer);
    for (const auto& parts : {std::vector{never, first, second}, std::vector{first, never, second},
                              std::vector{second, first, never}}) {
        std::optional<Recorder> sum;
        for (const auto& part : parts) {
            mergeInto(sum, part);
        }
        EXPECT_EQ(sum->start(), kUptime);
        EXPECT_EQ(sum->elapsed(), 2 * kSecond);
        EXPECT_EQ(sum->total().gets, 2U);
    }
}

}  // namespace
}  // namespace kv::load
