#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "load/generators/append.h"
#include "load/generators/pillowfight.h"

namespace kv::load {
namespace {

template <class Options>
int parse(int (*parser)(int, const char* const*, Options&), std::vector<const char*> args,
          Options& options) {
    args.insert(args.begin(), "tool");
    testing::internal::CaptureStderr();
    const int exit = parser(static_cast<int>(args.size()), args.data(), options);
    const auto message = testing::internal::GetCapturedStderr();
    EXPECT_EQ(message.empty(), exit != kExitUsage) << message;
    return exit;
}

int pillowfight(std::vector<const char*> args, PillowfightOptions& options) {
    return parse(&parsePillowfight, std::move(args), options);
}

int pillowfight(std::vector<const char*> args) {
    PillowfightOptions options;
    return pillowfight(std::move(args), options);
}

int append(std::vector<const char*> args) {
    AppendOptions options;
    return parse(&parseAppend, std::move(args), options);
}

TEST(PillowfightOptions, NamesOfCbcPillowfightMeanTheSame) {
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({"--host",
                           "h",
                           "--port",
                           "11",
                           "-I",
                           "100000",
                           "-t",
                           "4",
                           "-B",
                           "1000",
                           "-r",
                           "80",
                           "-m",
                           "256",
                           "-M",
                           "512",
                           "-n",
                           "-c",
                           "9",
                           "--sequential",
                           "--start-at",
                           "7",
                           "-p",
                           "pre",
                           "--random-seed",
                           "3",
                           "--rate-limit",
                           "500",
                           "-e",
                           "60",
                           "--json"},
                          o),
              -1);
    EXPECT_EQ(o.connection.session.host, "h");
    EXPECT_EQ(o.connection.session.port, 11);
    EXPECT_EQ(o.access.items, 100000U);
    EXPECT_EQ(o.threads, 4U);
    EXPECT_EQ(o.access.batch, 1000U);
    EXPECT_EQ(o.access.setPercent, 80);
    EXPECT_EQ(o.minSize, 256U);
    EXPECT_EQ(o.maxSize, 512U);
    EXPECT_TRUE(o.noPopulation);
    EXPECT_EQ(o.access.maxCycles, 9U);
    EXPECT_TRUE(o.access.sequential);
    EXPECT_EQ(o.access.startAt, 7U);
    EXPECT_EQ(o.keyPrefix, "pre");
    EXPECT_EQ(o.access.seed, 3U);
    EXPECT_EQ(o.access.rate, 500);
    EXPECT_EQ(o.expiry, 60U);
    EXPECT_TRUE(o.json);
    EXPECT_EQ(o.effectiveWindow(), 64U);  // a rate needs room to run late
}

TEST(PillowfightOptions, DefaultsAreCbcPillowfights) {
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({}, o), -1);
    EXPECT_EQ(o.access.items, 1000U);
    EXPECT_EQ(o.access.batch, 100U);
    EXPECT_EQ(o.access.setPercent, 33);
    EXPECT_EQ(o.minSize, 50U);
    EXPECT_EQ(o.maxSize, 5120U);
    EXPECT_EQ(o.access.maxCycles, ~std::uint64_t{0});
    EXPECT_EQ(o.effectiveWindow(), 1U);
}

TEST(PillowfightOptions, OptionsWithoutCounterpart) {
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({"--connections", "3", "--duration", "2.5", "--ramp", "0.5", "--num-ops",
                           "10", "--key-semantics", "key-mod", "--shared-sequence", "--vbuckets",
                           "64", "--window", "2"},
                          o),
              -1);
    EXPECT_EQ(o.connections, 3U);
    EXPECT_EQ(o.duration, 2.5);
    EXPECT_EQ(o.ramp, 0.5);
    EXPECT_EQ(o.access.maxOps, 10U);
    EXPECT_EQ(o.access.semantics, KeySemantics::kKeyMod);
    EXPECT_TRUE(o.access.sharedSequence);
    EXPECT_EQ(o.vbuckets, 64U);
    EXPECT_EQ(o.effectiveWindow(), 2U);
}

TEST(PillowfightOptions, OneSizeAloneAdjustsTheOtherIfNecessary) {
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({"-M", "20"}, o), -1);
    EXPECT_EQ(o.minSize, 20U);
    PillowfightOptions p;
    ASSERT_EQ(pillowfight({"-m", "9000"}, p), -1);
    EXPECT_EQ(p.maxSize, 9000U);
}

TEST(PillowfightOptions, BadUsageIsExitTwo) {
    const std::string directory = testing::TempDir();
    const std::string missing = directory + "pillowfight_no_such_file";
    const std::vector<std::vector<const char*>> bad{
            {"--nope"},
            {"-I", "0"},
            {"-I", "-3"},
            {"-I", "x"},
            {"-t", "0"},
            {"-B", "0"},
            {"-r", "101"},
            {"-m", "20", "-M", "10"},
            {"-M", "99999999"},
            {"-n", "--populate-only"},
            {"--delete"},
            {"--share", "101"},
            {"--draw", "-1"},
            {"--min-key-size", "20"},
            {"--min-key-size", "19", "--max-key-size", "30"},
            {"--min-key-size", "40", "--max-key-size", "30"},
            {"--min-key-size", "20", "--max-key-size", "251"},
            {"--sizes", "normal"},
            {"--key-semantics", "odd"},
            {"--duration", "0"},
            {"--duration", "1", "--ramp", "1"},
            {"--json", "-m", "5", "-M", "50"},
            {"--user", "u"},
            {"--password-file", missing.c_str()},
            {"--user", "u", "--password-file", missing.c_str()},
            {"--user", "u", "--password-file", directory.c_str()},
            {"--port", "0"},
            {"--port", "70000"},
            {"--rate-limit", "-1"},
            {"--num-ops", "0"},
            {"--protocol", "http"},
            {"--protocol", "couchbase", "--plain"},
            {"--protocol", "text", "--key-prefix", "a b"},
            {"--unix", "/s", "--port", "1"},
            {"--variant", "host=h,port=1,unix=/s"},
            {"--variant", "host=h,port=1,protocol=http"},
            {"--variant", "host=h,port=1,protocol=meta", "--key-prefix", "a b"},
            {"extra"}};
    for (const auto& args : bad) {
        EXPECT_EQ(pillowfight(args), kExitUsage) << args[0];
    }
}

TEST(PillowfightOptions, PasswordComesFromAFileWithoutItsNewline) {
    const std::string path = testing::TempDir() + "pillowfight_password";
    std::ofstream(path) << "s3cret word\n";
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({"--user", "u", "--password-file", path.c_str()}, o), -1);
    EXPECT_EQ(o.connection.session.password, "s3cret word");
    PillowfightOptions plain;
    ASSERT_EQ(pillowfight({"--user", "u", "--password-file", path.c_str(), "--plain"}, plain), -1);
    EXPECT_EQ(plain.connection.session.protocol, Protocol::kBinary);
    std::remove(path.c_str());
}

TEST(PillowfightOptions, APasswordMayBeInTheEnvironment) {
    ::setenv("PILLOWFIGHT_TEST_SECRET", "s3cret", 1);  // NOLINT(concurrency-mt-unsafe)
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({"--protocol", "resp2", "--password-env", "PILLOWFIGHT_TEST_SECRET"}, o),
              -1);
    EXPECT_EQ(o.connection.session.password, "s3cret");
    EXPECT_EQ(pillowfight({"--protocol", "text", "--password-env", "PILLOWFIGHT_TEST_SECRET"}),
              kExitUsage);  // needs a user
    EXPECT_EQ(pillowfight({"--protocol", "resp2", "--password-env", "PILLOWFIGHT_TEST_NONE"}),
              kExitUsage);
}

TEST(PillowfightOptions, ProtocolsOfVariantsMayDiffer) {
    const std::string path = testing::TempDir() + "variant_password";
    std::ofstream(path) << "own\n";
    ::setenv("PILLOWFIGHT_TEST_SECRET", "s3cret", 1);  // NOLINT(concurrency-mt-unsafe)
    const auto third = "unix=/s,protocol=resp3,password-file=" + path;
    PillowfightOptions o;
    ASSERT_EQ(pillowfight({"--variant", "host=h,port=1", "--variant", "host=h,port=2,protocol=text",
                           "--variant", third.c_str(), "--protocol", "resp2", "--password-env",
                           "PILLOWFIGHT_TEST_SECRET"},
                          o),
              -1);
    ASSERT_EQ(o.group.variants.size(), 3U);
    EXPECT_EQ(o.group.variants[0].session.protocol, Protocol::kResp2);
    EXPECT_EQ(o.group.variants[0].session.password, "s3cret");
    EXPECT_EQ(o.group.variants[1].session.protocol, Protocol::kText);
    EXPECT_EQ(o.group.variants[2].session.protocol, Protocol::kResp3);
    EXPECT_EQ(o.group.variants[2].session.unixPath, "/s");
    EXPECT_EQ(o.group.variants[2].session.password, "own");
    std::remove(path.c_str());
}

TEST(PillowfightOptions, APasswordThatOneUserNeedsIsNotGivenToOthers) {
    ::setenv("PILLOWFIGHT_TEST_SECRET", "s3cret", 1);  // NOLINT(concurrency-mt-unsafe)
    PillowfightOptions o;
    ASSERT_EQ(pillowfight(
                      {"--variant", "host=h,port=1,user=u", "--variant",
                       "host=h,port=2,protocol=resp2", "--password-env", "PILLOWFIGHT_TEST_SECRET"},
                      o),
              -1);
    EXPECT_EQ(o.group.variants[0].session.password, "s3cret");
    EXPECT_EQ(o.group.variants[1].session.password, "");
}

TEST(PillowfightOptions, VariantsAreServersInSlotOrder) {
    const std::string path = testing::TempDir() + "group_password";
    std::ofstream(path) << "secret\n";
    PillowfightOptions o;
    ASSERT_EQ(pillowfight(
                      {"--variant", "host=h1,port=11", "--variant",
                       "pid=7,port=12,host=[::1],user=other,clock=[fe80::2]:99,node=8,node=9@h3:5",
                       "-n", "--user", "u", "--password-file", path.c_str(), "--slice=0.005",
                       "--round-seed=18446744073709551615", "--idle=0.25", "--bucket", "b"},
                      o),
              -1);
    ASSERT_EQ(o.group.variants.size(), 2U);
    const auto& first = o.group.variants[0];
    EXPECT_EQ(first.session.host, "h1");
    EXPECT_EQ(first.session.port, 11);
    EXPECT_EQ(first.session.user, "u");
    EXPECT_EQ(first.session.password, "secret");
    EXPECT_EQ(first.session.bucket, "b");
    EXPECT_FALSE(first.pid);
    EXPECT_FALSE(first.clock);
    const auto& second = o.group.variants[1];
    EXPECT_EQ(second.session.host, "::1");
    EXPECT_EQ(second.session.port, 12);
    EXPECT_EQ(second.session.user, "other");
    EXPECT_EQ(second.session.password, "secret");
    EXPECT_EQ(second.pid, 7);
    ASSERT_TRUE(second.clock);
    EXPECT_EQ(second.clock->host, "fe80::2");
    EXPECT_EQ(second.clock->port, 99);
    const auto processes = second.processes();
    ASSERT_EQ(processes.size(), 3U);
    EXPECT_EQ(processes[0].pid, 7);
    EXPECT_EQ(processes[0].clock->port, 99);
    EXPECT_EQ(processes[1].pid, 8);
    EXPECT_FALSE(processes[1].clock);
    EXPECT_EQ(processes[2].pid, 9);
    EXPECT_EQ(processes[2].clock->host, "h3");
    EXPECT_TRUE(first.processes().empty());
    EXPECT_EQ(o.slice, 0.005);
    EXPECT_EQ(o.group.roundSeed, ~std::uint64_t{0});
    EXPECT_EQ(o.group.idle, 0.25);
    std::remove(path.c_str());
}

TEST(PillowfightOptions, BadGroupsAreExitTwo) {
    const char* good = "host=h,port=1";
    const std::vector<std::vector<const char*>> bad{
            {"--slice", "0.002"},
            {"--round-seed", "1"},
            {"--idle", "0.2"},
            {"-n", "--variant", good, "--idle", "-1"},
            {"-n", "--variant", good, "--host", "h"},
            {"-n", "--variant", good, "--port", "1"},
            {"-n", "--variant", good, "--slice", "0"},
            {"-n", "--variant", good, "--user", "u"},  // no password
            {"-n", "--variant", "host=h,port=1,user=u"},
            {"-n", "--variant", "host=h,port=1,pid=3,clock=c:1"},
            {"-n", "--variant", "host=h"},
            {"-n", "--variant", "port=1"},
            {"-n", "--variant", ""},
            {"-n", "--variant", "host=h,port=0"},
            {"-n", "--variant", "host=h,port=1x"},
            {"-n", "--variant", "host=,port=1"},
            {"-n", "--variant", "host=h,port=1,port=2"},
            {"-n", "--variant", "host=h,port=1,pid=-1"},
            {"-n", "--variant", "host=h,port=1,clock=c:1"},  // of which process?
            {"-n", "--variant", "host=h,port=1,node=2"},     // and the first node?
            {"-n", "--variant", "host=h,port=1,pid=1,node=0"},
            {"-n", "--variant", "host=h,port=1,pid=1,node=2@c"},
            {"-n", "--variant", "host=h,port=1,pid=1,node=2@c:1"},  // no password
            {"-n", "--variant", "host=h,port=1,colour=red"},
            {"-n", "--variant", "host=h,port=1,pid"},
            {"-n", "--variant"}};
    for (const auto& args : bad) {
        EXPECT_EQ(pillowfight(args), kExitUsage) << args.back();
    }
    EXPECT_EQ(pillowfight({"-n", "--variant", good}), -1);
    EXPECT_EQ(pillowfight({"--populate-only", "--variant", good}), -1);
}

TEST(ParseAddress, WantsBracketsAroundColons) {
    EXPECT_EQ(parseAddress("host:1")->host, "host");
    EXPECT_EQ(parseAddress("127.0.0.1:65535")->port, 65535);
    EXPECT_EQ(parseAddress("[::1]:8")->host, "::1");
    for (const char* text :
         {"", "host", "host:", ":1", "host:0", "host:65536", "::1:8", "[::1]", "host:1 ", "[]:1"}) {
        EXPECT_FALSE(parseAddress(text)) << text;
    }
}

TEST(AppendOptions, ParsesAndRefuses) {
    AppendOptions o;
    ASSERT_EQ(
            parse(&parseAppend,
                  {"--items", "5000000", "--rounds", "2", "--seed", "8", "--in-flight", "50",
                   "--threads", "2", "--vbuckets", "16", "--fields-min", "1", "--fields-max", "3"},
                  o),
            -1);
    EXPECT_EQ(o.items, 5'000'000U);
    EXPECT_EQ(o.rounds, 2U);
    EXPECT_EQ(o.seed, 8U);
    EXPECT_EQ(o.inFlight, 50U);
    EXPECT_EQ(o.threads, 2U);
    EXPECT_EQ(o.fieldsMin, 1U);
    EXPECT_EQ(o.fieldsMax, 3U);
    EXPECT_EQ(append({"--items", "0"}), kExitUsage);
    EXPECT_EQ(append({"--slice-ops", "5"}), kExitUsage);
    EXPECT_EQ(append({"--variant", "host=h,port=1", "--slice-ops", "0"}), kExitUsage);
    AppendOptions e;
    ASSERT_EQ(
            parse(&parseAppend,
                  {"--variant", "host=h,port=1", "--variant", "host=h,port=2", "--slice-ops", "5"},
                  e),
            -1);
    EXPECT_EQ(e.group.variants[1].session.port, 2);
    EXPECT_EQ(e.sliceOps, 5U);
    EXPECT_EQ(append({"--fields-min", "9", "--fields-max", "8"}), kExitUsage);
    EXPECT_EQ(append({"--in-flight", "2", "--threads", "3"}), kExitUsage);
    EXPECT_EQ(append({"--bogus"}), kExitUsage);
}

}  // namespace
}  // namespace kv::load
