#include "server/stats/prefix_stats.h"

#include <gtest/gtest.h>

#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

std::vector<Answer> stat(Bench& bench, const std::string& group) {
    bench.feed(Frame{.opcode = Opcode::kStat, .key = group}.bytes());
    return bench.answers();
}

/// Returns the output of `stats detail dump`; the answer ends like every STAT.
std::string dump(Bench& bench) {
    const auto answers = stat(bench, "detail dump");
    EXPECT_GE(answers.size(), 2U);
    EXPECT_EQ(answers.front().key, "detailed");
    EXPECT_TRUE(answers.back().key.empty() && answers.back().value.empty());
    return answers.front().value;
}

std::string traffic() {
    const std::string meta("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x09", 24);
    return setBytes("user:1", "v") + setBytes("user:2", "v") + setBytes("plain", "v") +
           setBytes(":x", "v") + setBytes("a:b:c", "v") + getBytes("user:1") + getBytes("user:9") +
           getBytes("plain") + Frame{.opcode = Opcode::kDelete, .key = "user:1"}.bytes() +
           Frame{.opcode = Opcode::kDelete, .key = "user:1"}.bytes() +
           Frame{.opcode = Opcode::kAppend, .key = "user:2", .value = "+"}.bytes() +
           Frame{.opcode = Opcode::kGatQ, .key = "user:2", .extras = std::string(4, '\0')}.bytes() +
           Frame{.opcode = Opcode::kSetWithMeta, .key = "m:1", .value = "v", .extras = meta}
                   .bytes() +
           Frame{.opcode = Opcode::kDeleteWithMeta, .key = "m:2", .extras = meta}.bytes();
}

TEST(PrefixStats, CountsByPrefixWhileOn) {
    Bench bench;
    bench.feed(traffic());
    bench.answers();
    EXPECT_EQ(dump(bench), "END\r\n") << "off at the beginning";

    const auto on = stat(bench, "detail on");
    ASSERT_EQ(on.size(), 1U);
    EXPECT_EQ(on[0].status, Status::kSuccess);
    bench.feed(traffic());
    bench.answers();
    const std::string expected =
            "PREFIX  get 0 hit 0 set 1 del 0\r\n"
            "PREFIX a get 0 hit 0 set 1 del 0\r\n"
            "PREFIX m get 0 hit 0 set 1 del 1\r\n"
            "PREFIX user get 3 hit 2 set 3 del 2\r\n"
            "END\r\n";
    EXPECT_EQ(dump(bench), expected);

    stat(bench, "detail off");
    bench.feed(traffic());
    bench.answers();
    EXPECT_EQ(dump(bench), expected) << "the counts stay";
    stat(bench, "reset");
    EXPECT_EQ(dump(bench), "END\r\n");
}

TEST(PrefixStats, AreSwitchedInTheMiddleOfABatch) {
    Bench bench;
    bench.feed(getBytes("a:1") + Frame{.opcode = Opcode::kStat, .key = "detail on"}.bytes() +
               getBytes("a:1") + Frame{.opcode = Opcode::kStat, .key = "detail off"}.bytes() +
               getBytes("a:1"));
    bench.answers();
    EXPECT_EQ(dump(bench), "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n");
}

TEST(PrefixStats, OtherSubcommandsAreUnknown) {
    Bench bench;
    for (const char* group : {"detail", "detail ", "detail foo", "detail dumpx", "detailed"}) {
        EXPECT_EQ(bench.ask({.opcode = Opcode::kStat, .key = group}).status, Status::kKeyEnoent)
                << group;
    }
}

TEST(PrefixStats, AreBoundedAndReportTheRest) {
    Bench bench;
    stat(bench, "detail on");
    const size_t before = bench.bucket->memory().precise();
    for (size_t i = 0; i < PrefixStats::kMaxPrefixes + 10; ++i) {
        bench.feed(getBytes(std::to_string(i) + ":k"));
    }
    bench.feed(getBytes("0:k"));
    bench.answers();
    EXPECT_EQ(bench.bucket->memory().precise(), before) << "no bucket is charged for it";
    const auto answers = stat(bench, "detail dump");
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(answers[1].key, "detailed_others");
    EXPECT_EQ(answers[1].value, "get 10 hit 0 set 0 del 0");
    const auto& text = answers[0].value;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), PrefixStats::kMaxPrefixes + 1);
    EXPECT_NE(text.find("PREFIX 0 get 2 hit 0"), std::string::npos);
}

TEST(PrefixStats, APrefixCannotForgeLines) {
    Bench bench;
    stat(bench, "detail on");
    bench.feed(getBytes("a b\r\nEND\x7f\xc3\xa4:1"));
    bench.answers();
    EXPECT_EQ(dump(bench), "PREFIX a%20b%0D%0AEND%7F\xc3\xa4 get 1 hit 0 set 0 del 0\r\nEND\r\n");
}

}  // namespace
}  // namespace kv::server
