#include "load/generators/sampler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "load/core/load_error.h"
#include "load/core/process_usage.h"
#include "load/protocols/fake_server.h"
#include "load/protocols/session.h"

namespace kv::load {
namespace {

TEST(ProcessUsage, ReadsTheRollup) {
    ProcessUsage usage;
    const std::string text =
            "55f7-7ffe ---p 00000000 00:00 0 [rollup]\nRss:                1616 kB\nPss:           "
            "      229 kB\n"
            "Pss_Dirty:           112 kB\nPss_Anon:            112 kB\nPss_File:             90 "
            "kB\n"
            "LazyFree:             12 kB\nAnonHugePages:      2048 kB\n";
    ASSERT_TRUE(parseSmapsRollup(text, usage));
    EXPECT_EQ(usage.rss, 1616U * 1024);
    EXPECT_EQ(usage.pss, 229U * 1024);  // not Pss_Dirty
    EXPECT_EQ(usage.pssFile, 90U * 1024);
    EXPECT_EQ(usage.lazyFree, 12U * 1024);
    EXPECT_EQ(usage.anonHuge, 2048U * 1024);
    ASSERT_TRUE(parseSmapsRollup("x\nRss: 1 kB\nPss: 1 kB\nLazyFree: 1 kB\nAnonHugePages: 1 kB\n",
                                 usage));
    EXPECT_EQ(usage.pssFile, std::nullopt);     // kernels before 5.4
    EXPECT_FALSE(parseSmapsRollup("", usage));  // a zombie's rollup is empty
    EXPECT_FALSE(parseSmapsRollup("x\nRss: 1 kB\nPss: 1 kB\nLazyFree: 1 kB\n", usage));
}

TEST(ProcessUsage, ReadsStatWhateverTheName) {
    ProcessUsage usage;
    ASSERT_TRUE(
            parseStat("7 (kv) (x) 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 5 0 12345 "
                      "8192000 300 1",
                      100, usage));
    EXPECT_DOUBLE_EQ(usage.cpuUser, 2.5);
    EXPECT_DOUBLE_EQ(usage.cpuSystem, 0.5);
    EXPECT_EQ(usage.threads, 5U);
    EXPECT_EQ(usage.vsz, 8192000U);
    EXPECT_FALSE(parseStat("7 (kv) S 1", 100, usage));
    EXPECT_FALSE(parseStat("", 100, usage));
}

TEST(ProcessUsage, FindsStacksBehindTheirGuardPages) {
    const std::string maps =
            "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
            "7f0000001000-7f0000801000 rw-p 00000000 00:00 0 \n"  // 8 MiB after a guard
            "7f0000801000-7f0000802000 ---p 00000000 00:00 0 \n"
            "7f0000802000-7f0000901000 rw-p 00000000 00:00 0 \n"   // too small
            "7f0000a00000-7f0001200000 rw-p 00000000 00:00 0 \n";  // no guard
    EXPECT_EQ(stackBytes(maps, 8U << 20U, 4096), 8U << 20U);
    EXPECT_EQ(stackBytes("", 8U << 20U, 4096), 0U);
}

TEST(ProcessUsage, OfThisProcessIsPlausible) {
    std::vector<char> memory(32U << 20U, 'x');
    const auto usage = readUsage(::getpid());
    EXPECT_GT(usage.rss, memory.size());
    EXPECT_GE(usage.vsz, usage.rss);
    EXPECT_GE(usage.threads, 1U);
    if (usage.pssFile) {
        EXPECT_GT(usage.pss - *usage.pssFile, memory.size());
    }
    EXPECT_THROW(readUsage(0x3fffffff), LoadError);
}

TEST(Sampler, ASampleHoldsProcAndTheNumbersOfStat) {
    FakeServer server(
            {.stats = {
                     {"mem_used", "123"}, {"ratio", "1.5"}, {"name", "jemalloc"}, {"empty", ""}}});
    SessionOptions options;
    options.port = server.port();
    auto client = openSession(options).client;
    const auto sample = takeSample(client, ::getpid());
    EXPECT_EQ(sample["stat"].dump(), R"({"mem_used":123,"ratio":1.5})");
    for (const char* field : {"t", "rss", "pss", "pss_file", "lazyfree", "anon_huge", "vsz",
                              "stacks_vsz", "cpu_user_s", "cpu_sys_s", "threads"}) {
        EXPECT_TRUE(sample.contains(field)) << field;
    }
}

TEST(Client, StatOfAnUnknownGroupIsAnError) {
    FakeServer server;
    SessionOptions options;
    options.port = server.port();
    auto client = openSession(options).client;
    EXPECT_THROW(client.stat("nosuch"), LoadError);
    EXPECT_TRUE(client.stat("").empty());
    EXPECT_EQ(askVbuckets(client), 64U);
}

}  // namespace
}  // namespace kv::load
