#include "server/login/login_brake.h"

#include <gtest/gtest.h>

namespace kv::server {
namespace {

using namespace std::chrono_literals;

class LoginBrakeTest : public testing::Test {
  protected:
    /// Tries a password every 10 ms and returns how many attempts were answered.
    int guesses(const std::string& user, const std::string& address, std::chrono::seconds time) {
        int answered = 0;
        for (const auto end = now_ + time; now_ < end; now_ += 10ms) {
            if (brake_.allows(user, address, now_)) {
                brake_.failed(user, address, now_);
                ++answered;
            }
        }
        return answered;
    }

    LoginBrake::Clock::time_point now_{std::chrono::hours(1)};
    LoginBrake brake_{60};
};

TEST_F(LoginBrakeTest, AUserOfAnAddressHasABurstAndThenTheRate) {
    EXPECT_NEAR(guesses("ann", "10.0.0.1", 100s), 10 + 100, 1);
    EXPECT_FALSE(brake_.allows("ann", "10.0.0.1", now_)) << "the right password is not answered";
    EXPECT_TRUE(brake_.allows("ann", "10.0.0.2", now_)) << "another address is not slowed";
    EXPECT_TRUE(brake_.allows("bob", "10.0.0.1", now_)) << "nor another user";
    now_ += 10s;
    EXPECT_NEAR(guesses("ann", "10.0.0.1", 0s + 1s), 10, 1) << "the burst comes back";
}

TEST_F(LoginBrakeTest, AnAddressThatTriesManyUsersIsSlowed) {
    int answered = 0;
    for (int i = 0; i < 10'000; ++i) {
        const std::string user = "user" + std::to_string(i);
        if (brake_.allows(user, "10.0.0.1", now_)) {
            brake_.failed(user, "10.0.0.1", now_);
            ++answered;
        }
        now_ += 1ms;
    }
    EXPECT_NEAR(answered, 100 + 10 * 10, 2);
    EXPECT_TRUE(brake_.allows("user1", "10.0.0.2", now_));
}

TEST_F(LoginBrakeTest, RemembersABoundedNumber) {
    for (int i = 0; i < 50'000; ++i) {
        brake_.failed("ann", "address" + std::to_string(i), now_);
        now_ += 1us;
        ASSERT_LE(brake_.entries(), LoginBrake::kMostEntries);
    }
    EXPECT_GT(brake_.entries(), LoginBrake::kMostEntries / 3);
}

TEST_F(LoginBrakeTest, AUserWithoutFailuresIsAllowed) {
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(brake_.allows("ann", "10.0.0.1", now_));
    }
    EXPECT_EQ(brake_.entries(), 0U);
}

}  // namespace
}  // namespace kv::server
