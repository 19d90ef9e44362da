#include "server/commands/expiry.h"

#include <gtest/gtest.h>

#include "server/commands/data_ops_test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

TEST_F(DataOps, ExpiryIsRelativeUpTo30DaysAndAbsoluteAbove) {
    set("relative", "x", Opcode::kSet, 0, 10);
    set("absolute", "x", Opcode::kSet, 0, bench_.now.seconds + 10);
    set("never", "x");
    bench_.now = OpTime::fromNanos(bench_.now.nanos + 9'000'000'000ULL);
    EXPECT_EQ(get("relative").status, Status::kSuccess);
    EXPECT_EQ(get("absolute").status, Status::kSuccess);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kTouch, .key = "relative", .extras = u32(100)}).status,
              Status::kSuccess);
    bench_.now = OpTime::fromNanos(bench_.now.nanos + 2'000'000'000ULL);
    EXPECT_EQ(get("absolute").status, Status::kKeyEnoent);
    EXPECT_EQ(get("relative").status, Status::kSuccess) << "touched";
    EXPECT_EQ(get("never").status, Status::kSuccess);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kTouch, .key = "none", .extras = u32(1)}).status,
              Status::kKeyEnoent);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGat, .key = "relative", .extras = u32(1)}).value, "x");
    bench_.now = OpTime::fromNanos(bench_.now.nanos + 3'000'000'000ULL);
    EXPECT_EQ(get("relative").status, Status::kKeyEnoent);
}

TEST_F(DataOps, ARelativeExpiryLastsAtMostASecondLongerThanRequested) {
    constexpr uint64_t kSecond = 1'000'000'000;
    constexpr uint64_t kStart = 1'800'000'000 * kSecond;
    bench_.becomeCouchbase("\0\x07\0\x08"s);
    for (const uint64_t fraction : {uint64_t{0}, uint64_t{1}, uint64_t{940'000'000}}) {
        const uint64_t start = kStart + fraction;
        const auto at = [this, start](uint64_t nanos) {
            bench_.now = OpTime::fromNanos(start + nanos);
        };
        at(0);
        set("expires", "x", Opcode::kSet, 0, 1);
        set("locked", "x");
        EXPECT_EQ(bench_.ask({.opcode = Opcode::kGetLocked, .key = "locked", .extras = u32(1)})
                          .status,
                  Status::kSuccess);
        at(kSecond - 1);
        EXPECT_EQ(get("expires").status, Status::kSuccess) << fraction;
        EXPECT_EQ(set("locked", "y").status, Status::kLocked) << fraction;
        at(2 * kSecond);
        EXPECT_EQ(get("expires").status, Status::kKeyEnoent) << fraction;
        EXPECT_EQ(set("locked", "y").status, Status::kSuccess) << fraction;
    }
}

TEST_F(DataOps, TheRemainingExpiryTimeChangesWithTheClock) {
    constexpr uint64_t kHour = 3'600'000'000'000;
    const OpTime start = bench_.now;
    set("k", "x", Opcode::kSet, 0, 2 * 3600);
    bench_.now = OpTime::fromNanos(start.nanos - kHour);  // set the clock back
    EXPECT_EQ(get("k").status, Status::kSuccess);
    bench_.now = OpTime::fromNanos(start.nanos + 3 * kHour / 2);
    EXPECT_EQ(get("k").status, Status::kSuccess);
    bench_.now = OpTime::fromNanos(start.nanos + 2 * kHour + 1'000'000'000);  // or forward
    EXPECT_EQ(get("k").status, Status::kKeyEnoent);
}

TEST_F(DataOps, PreserveExpiryKeepsTheExpiryOfAnExistingDocument) {
    const auto preserving = [this](const std::string& key) {
        return bench_.ask({.opcode = Opcode::kSet,
                           .key = key,
                           .value = "new",
                           .extras = storeExtras(0, 1000),
                           .magic = protocol::Magic::kAltClientRequest,
                           .framing = "\x50"});
    };
    const auto expiry = [this](const std::string& key) {
        return bench_.ask({.opcode = Opcode::kGetMeta, .key = key}).extras.substr(8, 4);
    };
    set("old", "x", Opcode::kSet, 0, 100);
    preserving("old");
    preserving("none");
    EXPECT_EQ(get("old").value, "new");
    EXPECT_EQ(expiry("old"), u32(bench_.now.inSeconds(100)));
    EXPECT_EQ(expiry("none"), u32(bench_.now.inSeconds(1000)));
    set("old", "x", Opcode::kSet, 0, 50);
    EXPECT_EQ(expiry("old"), u32(bench_.now.inSeconds(50))) << "only where it is asked for";
}

}  // namespace
}  // namespace kv::server
