#include "benchmarks/pass.h"

#include <gtest/gtest.h>

#include <thread>

namespace kv::bench {
namespace {

struct Counted {
    explicit Counted(int* alive) : alive_(alive) { ++*alive_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { --*alive_; }
    int* alive_;
};

class PassTest : public testing::Test {
  protected:
    PassTest() { pass_.close(); }
    ~PassTest() override { pass_.close(); }

    Counted& open(const std::string& name, int64_t length) {
        return pass_.open<Counted>(name, length, [&] {
            ++made_;
            return std::make_unique<Counted>(&alive_);
        });
    }

    Pass& pass_{Pass::current()};
    int made_{0};
    int alive_{0};
};

TEST_F(PassTest, KeepsItsStateUntilItsLastIteration) {
    Counted& first = open("fill", 10);
    EXPECT_EQ(pass_.position(), 0);
    pass_.advance(4);
    EXPECT_EQ(&open("fill", 10), &first);
    EXPECT_EQ(pass_.position(), 4);
    EXPECT_EQ(pass_.left(), 6);
    pass_.advance(6);
    EXPECT_EQ(alive_, 0);
    EXPECT_EQ(pass_.left(), std::nullopt);
    open("fill", 10);
    EXPECT_EQ(pass_.position(), 0);
    EXPECT_EQ(made_, 2);
}

TEST_F(PassTest, AnotherBenchmarkGetsItsOwnState) {
    open("fill", 10);
    pass_.advance(4);
    open("empty", 0);
    EXPECT_EQ(made_, 2);
    EXPECT_EQ(alive_, 1);
    EXPECT_EQ(pass_.position(), 0);
}

TEST_F(PassTest, WithoutALengthItHasNoEnd) {
    open("ask", 0);
    pass_.advance(1'000'000);
    open("ask", 0);
    EXPECT_EQ(made_, 1);
    EXPECT_EQ(pass_.left(), std::nullopt);
    pass_.close();
    EXPECT_EQ(alive_, 0);
}

TEST_F(PassTest, ItsSetupTimeIsReportedOnce) {
    pass_.takeSetup();
    pass_.open<int>("slow", 1, [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return std::make_unique<int>(1);
    });
    EXPECT_GE(pass_.takeSetup(), std::chrono::milliseconds(2));
    EXPECT_EQ(pass_.takeSetup(), std::chrono::nanoseconds(0));
}

}  // namespace
}  // namespace kv::bench
