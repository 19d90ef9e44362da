// When a DCP client is due for a no-op, and when it is gone.
#include "server/replication/dcp_noop_timer.h"

#include <gtest/gtest.h>

namespace kv::server {
namespace {

using namespace std::chrono_literals;

class DcpNoopTimerTest : public testing::Test {
  protected:
    DcpNoopTimerTest() {
        timer_.setInterval(20s);
        timer_.enable(true, start_);
    }
    /// Ticks `at` seconds after the start; the client has taken `taken` bytes in total.
    bool tick(int at, uint64_t taken = 0, size_t waiting = 0) {
        const auto now = start_ + std::chrono::seconds(at);
        if (taken != taken_ || waiting == 0) {
            taken_ = taken;
            lastTaken_ = now;
        }
        return timer_.tick(now, {taken, waiting, lastTaken_});
    }
    /// Ticks until the client is gone. Returns the second of that tick, or nothing within `most`
    /// seconds.
    std::optional<int> goneAt(int from, int most, uint64_t taken, size_t waiting) {
        for (int at = from; at <= most; ++at) {
            if (!tick(at, taken, waiting)) {
                return at;
            }
        }
        return std::nullopt;
    }

    const DcpNoopTimer::Clock::time_point start_{};
    DcpNoopTimer timer_{start_};
    uint64_t taken_{0};
    DcpNoopTimer::Clock::time_point lastTaken_{start_};
};

TEST_F(DcpNoopTimerTest, ANoopIsDueOncePerIntervalWhileItIsAnswered) {
    for (int round = 1; round <= 5; ++round) {
        EXPECT_TRUE(tick(20 * round - 1));
        EXPECT_FALSE(timer_.takeDue());
        EXPECT_TRUE(tick(20 * round));
        EXPECT_TRUE(timer_.takeDue());
        EXPECT_FALSE(timer_.takeDue()) << "one no-op is written once";
        timer_.answered();
    }
}

TEST_F(DcpNoopTimerTest, AClientThatTakesNothingIsGoneAfterTwoIntervals) {
    // The connection is full, so the no-op is never written.
    EXPECT_TRUE(tick(0, 1000, 5000));
    EXPECT_EQ(goneAt(1, 1000, 1000, 5000), 40);
}

TEST_F(DcpNoopTimerTest, AClientWithAWrittenNoopThatTakesNothingIsGoneAfterTwoIntervals) {
    EXPECT_TRUE(tick(0, 1000, 100));
    EXPECT_TRUE(tick(20, 1000, 100));
    EXPECT_TRUE(timer_.takeDue());
    EXPECT_EQ(goneAt(21, 1000, 1000, 124), 40);
}

TEST_F(DcpNoopTimerTest, AClientThatReadsAndDoesNotAnswerIsGone) {
    EXPECT_TRUE(tick(20));
    EXPECT_TRUE(timer_.takeDue());
    // The client keeps taking the bytes behind the no-op.
    for (int at = 21; at < 40; ++at) {
        EXPECT_TRUE(tick(at, 1000 * static_cast<std::uint64_t>(at), 10)) << at;
    }
    EXPECT_FALSE(tick(41, 41'000, 10));
}

TEST_F(DcpNoopTimerTest, ASlowReaderIsKeptUntilTheNoopHasReachedIt) {
    EXPECT_TRUE(tick(20, 0, 100'000));
    EXPECT_TRUE(timer_.takeDue());
    for (int at = 21; at < 200; ++at) {
        EXPECT_TRUE(tick(at, 100 * static_cast<std::uint64_t>(at), 100'000)) << at;
    }
    EXPECT_TRUE(tick(200, 1'000'000, 100'000));
    EXPECT_EQ(goneAt(201, 1000, 1'000'000, 100'000), 219) << "it has received the no-op";
}

TEST_F(DcpNoopTimerTest, NothingHappensUnlessItIsEnabled) {
    timer_.enable(false, start_);
    EXPECT_EQ(goneAt(1, 1000, 0, 5000), std::nullopt);
    EXPECT_FALSE(timer_.takeDue());
}

}  // namespace
}  // namespace kv::server
