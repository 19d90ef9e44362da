// pillowfight over several servers alternately, against servers inside this process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "load/core/round_order.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/fake_server.h"

namespace kv::load::group_test {
namespace {

using Json = nlohmann::ordered_json;

// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON's implicit members
struct Outcome {
    RunResult result;
    Json report;

    const Json& group() const { return report["group"]; }
    const Json& variant(std::size_t n) const { return report["group"]["variants"][n]; }
    const Json& access(std::size_t n) const { return variant(n)["report"]["access"]; }
    const Json& slices(std::size_t n) const { return variant(n)["slices"]; }
};

PillowfightOptions optionsFor(const std::vector<const FakeServer*>& servers) {
    PillowfightOptions options;
    options.connection.opTimeout = 5;
    for (const auto* server : servers) {
        Variant variant;
        variant.session.port = server->port();
        options.group.variants.push_back(variant);
    }
    options.group.roundSeed = 11;
    options.noPopulation = true;
    options.access.items = 1003;
    options.access.batch = 20;
    options.access.setPercent = 40;
    options.access.seed = 42;
    options.minSize = options.maxSize = 64;
    options.slice = 0.001;
    options.duration = 0.1;
    return options;
}

double cpuOf(const Json& client) {
    return client["cpu_user_s"].get<double>() + client["cpu_sys_s"].get<double>();
}

Outcome run(const PillowfightOptions& options) {
    Outcome outcome;
    outcome.result = runPillowfight(options, outcome.report);
    return outcome;
}

std::int64_t sum(const Json& figures) {
    std::int64_t total = 0;
    for (const auto& figure : figures) {
        total += figure.get<std::int64_t>();
    }
    return total;
}

void expectAccountsAddUp(const Outcome& outcome, std::uint32_t threads) {
    const auto& group = outcome.group();
    const auto rounds = group["rounds"].get<std::size_t>();
    EXPECT_GT(rounds, 0U);
    const auto variants = group["variants"].size();
    std::vector<std::set<int>> positions(rounds);
    std::vector<std::pair<std::int64_t, std::int64_t>> all;  // start, wall
    double total = 0;  // CPU seconds of the client for all variants
    for (std::size_t n = 0; n < variants; ++n) {
        const auto& slices = outcome.slices(n);
        for (const char* field : {"start_ns", "wall_ns", "ops", "client_cpu_ns", "position"}) {
            EXPECT_EQ(slices[field].size(), rounds) << field;
        }
        const auto& access = outcome.access(n);
        EXPECT_EQ(sum(slices["ops"]), access["ops"]);
        EXPECT_EQ(access["gets"].get<int>() + access["sets"].get<int>(), access["ops"]);
        EXPECT_EQ(access["latency_ns"]["get"]["count"], access["gets"]);
        EXPECT_EQ(access["latency_ns"]["set"]["count"], access["sets"]);
        EXPECT_FALSE(access.contains("series"));
        EXPECT_NEAR(access["seconds"].get<double>(),
                    static_cast<double>(sum(slices["wall_ns"])) * 1e-9, 1e-6);
        const auto& client = outcome.variant(n)["report"]["client"];
        EXPECT_EQ(client["wall_s"], access["seconds"]);
        EXPECT_EQ(client["threads"], threads);
        const auto cpu = cpuOf(client);
        const auto counted = static_cast<double>(sum(slices["client_cpu_ns"])) * 1e-9;
        EXPECT_GT(counted, 0);
        // Read one after the other; getrusage counts microseconds.
        EXPECT_GE(cpu, counted - 2e-6 * static_cast<double>(threads * rounds));
        total += cpu;
        for (std::size_t round = 0; round < rounds; ++round) {
            positions[round].insert(slices["position"][round].get<int>());
            all.emplace_back(slices["start_ns"][round], slices["wall_ns"][round]);
        }
    }
    EXPECT_LE(total, cpuOf(outcome.report["client"]) + 1e-6);  // which also has the gaps
    for (const auto& ofRound : positions) {
        EXPECT_EQ(ofRound.size(), variants);
        EXPECT_EQ(*ofRound.rbegin(), static_cast<int>(variants) - 1);
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all.front().first, 0);
    for (std::size_t i = 1; i < all.size(); ++i) {  // slices do not overlap
        EXPECT_GE(all[i].first, all[i - 1].first + all[i - 1].second);
    }
    EXPECT_NEAR(group["seconds"].get<double>(),
                static_cast<double>(all.back().first + all.back().second) * 1e-9, 1e-6);
}

TEST(Group, SlicesAddUpToTheTotals) {
    FakeServer one;
    FakeServer two;
    FakeServer three;
    auto options = optionsFor({&one, &two, &three});
    options.ramp = 0.02;
    options.group.variants[1].pid = ::getpid();
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_EQ(outcome.report["options"]["variants"], 3);
    EXPECT_FALSE(outcome.report.contains("access"));
    EXPECT_FALSE(outcome.report.contains("interrupted"));
    const auto& group = outcome.group();
    EXPECT_EQ(group["slice_s"], 0.001);
    EXPECT_EQ(group["round_seed"], 11);
    EXPECT_GE(group["warmup_rounds"], 1);
    expectAccountsAddUp(outcome, 1);
    const FakeServer* servers[] = {&one, &two, &three};
    for (std::size_t n = 0; n < 3; ++n) {
        const auto& warmup = outcome.variant(n)["warmup"];
        const auto& access = outcome.access(n);
        EXPECT_GT(warmup["ops"], 0);
        EXPECT_EQ(servers[n]->gets(),
                  warmup["gets"].get<std::uint64_t>() + access["gets"].get<std::uint64_t>());
        EXPECT_EQ(servers[n]->sets(),
                  warmup["sets"].get<std::uint64_t>() + access["sets"].get<std::uint64_t>());
        EXPECT_EQ(servers[n]->sessions(), 1U);
        EXPECT_TRUE(outcome.variant(n)["report"]["populate"].is_null());
        for (const auto& wall : outcome.slices(n)["wall_ns"]) {
            EXPECT_GE(wall.get<int>(), 1'000'000);  // never shorter than requested
        }
    }
    EXPECT_TRUE(outcome.slices(0)["cpu_ns"].is_null());
    EXPECT_TRUE(outcome.slices(1)["foreign_cpu_ns"].is_null()) << "one variant has no clock";
    EXPECT_EQ(group["idle_s"], 0);
    EXPECT_TRUE(outcome.variant(1)["idle_cpu_ns"].is_null());
    EXPECT_TRUE(outcome.variant(0)["pid"].is_null());
    EXPECT_EQ(outcome.variant(1)["pid"], ::getpid());
    // Client and servers are one process here, so its clock counts at least the client.
    EXPECT_EQ(outcome.slices(1)["cpu_ns"].size(), group["rounds"]);
    EXPECT_GT(sum(outcome.slices(1)["cpu_ns"]), sum(outcome.slices(1)["client_cpu_ns"]));
    const auto& client = outcome.report["client"];
    EXPECT_EQ(client["wall_s"], group["seconds"]);
    EXPECT_GT(client["cpu_us_per_op"].get<double>(), 0);
}

TEST(Group, EveryVariantSeesTheSameKeysInTheSameOrder) {
    FakeServer one({.keepRequests = true});
    FakeServer two({.dribble = 50, .keepRequests = true});  // slower
    FakeServer alone({.keepRequests = true});
    run(optionsFor({&one, &two}));
    auto single = optionsFor({});
    single.connection.session.port = alone.port();
    single.duration = 0;
    single.access.maxOps = 2000;
    run(single);
    const auto reference = alone.requests();
    const auto first = one.requests();
    const auto second = two.requests();
    const auto common = std::min(first.size(), second.size());
    ASSERT_GT(common, 100U);
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(common),
                           second.begin()));
    const auto shared = static_cast<std::ptrdiff_t>(std::min(common, reference.size()));
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + shared, reference.begin()));
}

TEST(Group, SeveralThreadsAndConnectionsShareEachSlice) {
    FakeServer one({.keepRequests = true});
    FakeServer two({.keepRequests = true});
    auto options = optionsFor({&one, &two});
    options.threads = 3;
    options.connections = 2;
    options.window = 2;
    options.access.maxOps = 6007;
    options.duration = 0;  // each variant does all its work
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    expectAccountsAddUp(outcome, 3);
    for (std::size_t n = 0; n < 2; ++n) {
        EXPECT_EQ(outcome.access(n)["ops"], 6007);
    }
    EXPECT_EQ(one.sessions(), 6U);
    auto first = one.requests();
    auto second = two.requests();
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    EXPECT_EQ(first, second);
}

TEST(Group, PopulatesAllVariantsAtOnceAndAlike) {
    FakeServer one({.keepRequests = true});
    FakeServer two({.tmpfailEvery = 7});
    FakeServer alone({.keepRequests = true});
    auto options = optionsFor({&one, &two});
    options.noPopulation = false;
    options.populateOnly = true;
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    auto single = optionsFor({});
    single.noPopulation = false;
    single.populateOnly = true;
    single.connection.session.port = alone.port();
    run(single);
    EXPECT_EQ(one.requests(), alone.requests());
    EXPECT_EQ(one.contents(), alone.contents());
    EXPECT_EQ(two.contents(), alone.contents());
    for (std::size_t n = 0; n < 2; ++n) {
        EXPECT_TRUE(outcome.access(n).is_null());
        EXPECT_EQ(outcome.group()["rounds"], 0);
    }
    const auto& populated = outcome.variant(0)["report"]["populate"];
    EXPECT_EQ(populated["ops"], 1003);
    EXPECT_GT(populated["seconds"], 0);
    EXPECT_GT(outcome.variant(1)["report"]["populate"]["errors"]["etmpfail"], 100);
}

TEST(Group, AVariantThatDiesWhileAllArePopulatedIsNamedAndTheOthersAreAsFar) {
    FakeServer one;
    FakeServer two({.closeAfter = 500});
    auto options = optionsFor({&one, &two});
    options.noPopulation = false;
    const auto outcome = run(options);
    EXPECT_NE(outcome.result.failure, "");
    EXPECT_EQ(outcome.report["failed_variant"], 1);
    EXPECT_NEAR(static_cast<double>(one.sets()), 500.0, 2.0 * kFillRequests);
}

TEST(Group, ARateHoldsWhileAVariantIsInTurn) {
    FakeServer one;
    FakeServer two;
    auto options = optionsFor({&one, &two});
    options.access.batch = 1;
    options.access.rate = 2000;  // a batch each 0.5 ms under load: two in each slice of 1 ms
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    expectAccountsAddUp(outcome, 1);
    const auto rounds = outcome.group()["rounds"].get<std::uint64_t>();
    for (std::size_t n = 0; n < 2; ++n) {
        const auto& access = outcome.access(n);
        EXPECT_EQ(access["ops"].get<std::uint64_t>() + access["overdue"].get<std::uint64_t>(),
                  2 * rounds);
        EXPECT_GT(access["ops"].get<std::uint64_t>(), 0U);
        for (const auto& wall : outcome.slices(n)["wall_ns"]) {
            EXPECT_GE(wall.get<int>(), 1'000'000);
        }
    }
}

TEST(Group, ALostConnectionNamesItsVariantAndKeepsWholeRounds) {
    for (const std::uint32_t threads : {1U, 2U}) {
        FakeServer good;
        FakeServer bad({.closeAfter = 20'000});  // some rounds later
        auto options = optionsFor({&good, &bad});
        options.duration = 60;
        options.threads = threads;
        const auto outcome = run(options);
        EXPECT_NE(outcome.result.failure.find("connection"), std::string::npos)
                << outcome.result.failure;
        EXPECT_TRUE(outcome.result.failure.starts_with("variant 1 (127.0.0.1:"));
        EXPECT_EQ(outcome.report["failure"], outcome.result.failure);
        EXPECT_EQ(outcome.report["failed_variant"], 1);
        const auto rounds = outcome.group()["rounds"].get<std::size_t>();
        for (std::size_t n = 0; n < 2; ++n) {
            EXPECT_EQ(outcome.slices(n)["ops"].size(), rounds);
            // The aborted round is only in the totals.
            EXPECT_GE(outcome.access(n)["ops"].get<std::int64_t>(), sum(outcome.slices(n)["ops"]));
        }
        EXPECT_LE(outcome.access(1)["ops"], 20'000);
        EXPECT_GT(outcome.access(0)["ops"], 0);
    }
}

TEST(Group, AStallNamesItsVariantAndCountsUnansweredRequests) {
    FakeServer silent({.silentAfter = 1000});
    FakeServer good;
    auto options = optionsFor({&silent, &good});
    options.connection.opTimeout = 1;
    options.duration = 60;
    const auto outcome = run(options);
    EXPECT_NE(outcome.result.failure.find("no answer"), std::string::npos);
    EXPECT_EQ(outcome.report["failed_variant"], 0);
    EXPECT_EQ(outcome.access(0)["errors"]["timeout"], 20);
    EXPECT_EQ(outcome.access(1)["errors"]["timeout"], 0);
}

TEST(Group, AVariantThatCannotBeReachedOrMeasuredIsNamed) {
    FakeServer good;
    auto options = optionsFor({&good, &good});
    {
        FakeServer gone;
        options.group.variants[1].session.port = gone.port();
    }
    options.threads = 2;
    auto outcome = run(options);
    EXPECT_NE(outcome.result.failure.find("cannot connect"), std::string::npos);
    EXPECT_EQ(outcome.report["failed_variant"], 1);
    EXPECT_EQ(outcome.group()["rounds"], 0);
    EXPECT_TRUE(outcome.access(0).is_null());

    options = optionsFor({&good, &good});
    options.group.variants[0].pid = 0x3fffffff;
    outcome = run(options);
    EXPECT_NE(outcome.result.failure.find("CPU clock"), std::string::npos);
    EXPECT_EQ(outcome.report["failed_variant"], 0);
}

TEST(Group, ASignalEndsTheRunWithTheRoundsSoFar) {
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
    ThreadTeam::blockSignals();
    {
        FakeServer one;
        FakeServer two;
        auto options = optionsFor({&one, &two});
        options.duration = 600;
        options.ramp = 0.001;
        std::thread killer([&] {
            while (one.gets() + one.sets() < 2000 || two.gets() + two.sets() < 2000) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            ::kill(::getpid(), SIGTERM);
        });
        const auto outcome = run(options);
        killer.join();
        EXPECT_TRUE(outcome.result.interrupted);
        EXPECT_EQ(outcome.result.failure, "");
        EXPECT_EQ(outcome.report["interrupted"], true);
        EXPECT_FALSE(outcome.report.contains("failed_variant"));
        const auto rounds = outcome.group()["rounds"].get<std::size_t>();
        EXPECT_GT(rounds, 0U);
        for (std::size_t n = 0; n < 2; ++n) {
            EXPECT_EQ(outcome.slices(n)["ops"].size(), rounds);
            EXPECT_GE(outcome.access(n)["ops"].get<std::int64_t>(), sum(outcome.slices(n)["ops"]));
        }
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace kv::load::group_test
