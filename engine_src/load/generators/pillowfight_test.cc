// The whole pillowfight, against a server inside this process.
#include "load/generators/pillowfight.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "load/core/channel.h"
#include "load/protocols/fake_server.h"
#include "load/protocols/key_codec.h"

namespace kv::load::pillowfight_test {
namespace {

using Json = nlohmann::ordered_json;

// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON's implicit members
struct Outcome {
    RunResult result;
    Json report;
};

PillowfightOptions optionsFor(const FakeServer& server) {
    PillowfightOptions options;
    options.connection.session.port = server.port();
    options.connection.opTimeout = 5;
    options.access.items = 1003;  // has no small divisors
    options.access.batch = 50;
    options.access.seed = 42;
    options.minSize = options.maxSize = 64;
    return options;
}

Outcome run(const PillowfightOptions& options) {
    Outcome outcome;
    outcome.result = runPillowfight(options, outcome.report);
    return outcome;
}

std::uint64_t seriesSum(const Json& access, const char* field) {
    std::uint64_t sum = 0;
    for (const auto& point : access["series"]) {
        sum += point[field].get<std::uint64_t>();
    }
    return sum;
}

TEST(Pillowfight, PopulateStoresEveryKeyOnceWhateverTheSplit) {
    FakeServer server;
    auto options = optionsFor(server);
    options.threads = 2;
    options.connections = 2;
    options.populateOnly = true;
    options.access.startAt = 5;
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_EQ(outcome.report["populate"]["ops"], 1003);
    EXPECT_TRUE(outcome.report["access"].is_null());
    EXPECT_EQ(server.sets(), 1003U);
    const auto contents = server.contents();
    const KeyCodec keys("", 20);
    ASSERT_EQ(contents.size(), 1003U);
    std::set<std::string> values;
    for (std::uint64_t id = 5; id < 1008; ++id) {
        const auto found = contents.find(keys.text(id));
        ASSERT_NE(found, contents.end()) << id;
        EXPECT_EQ(found->second.size(), 64U);
        values.insert(found->second);
    }
    EXPECT_EQ(values.size(), 1003U);  // documents differ
    EXPECT_TRUE(server.misrouted().empty());
    EXPECT_EQ(server.sessions(), 4U);
}

TEST(Pillowfight, PopulatedBodiesFollowFromTheSeedAlone) {
    FakeServer one;
    FakeServer other({.tmpfailEvery = 7, .dribble = 11});
    auto a = optionsFor(one);
    auto b = optionsFor(other);
    a.maxSize = b.maxSize = 300;
    a.populateOnly = b.populateOnly = true;
    b.threads = 2;
    b.access.batch = 13;
    b.window = 3;
    EXPECT_EQ(run(a).result.failure, "");
    const auto retried = run(b);
    EXPECT_EQ(retried.result.failure, "");
    EXPECT_GT(retried.report["populate"]["errors"]["etmpfail"], 100);
    EXPECT_EQ(one.contents(), other.contents());
}

TEST(Pillowfight, CountsEveryOperationOfAnExactNumber) {
    FakeServer server;
    auto options = optionsFor(server);
    options.threads = 2;
    options.connections = 3;
    options.window = 2;
    options.access.setPercent = 30;
    options.access.maxOps = 12347;
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    const auto& access = outcome.report["access"];
    EXPECT_EQ(access["ops"], 12347);
    EXPECT_EQ(access["gets"].get<int>() + access["sets"].get<int>(), 12347);
    EXPECT_EQ(access["hits"], access["gets"]);
    EXPECT_EQ(access["misses"], 0);
    EXPECT_NEAR(access["sets"].get<double>() / 12347, 0.30, 0.02);
    EXPECT_EQ(server.gets(), access["gets"].get<std::uint64_t>());
    EXPECT_EQ(server.sets(), access["sets"].get<std::uint64_t>() + 1003);
    EXPECT_EQ(seriesSum(access, "ops"), 12347U);
    EXPECT_EQ(seriesSum(access, "gets"), access["gets"].get<std::uint64_t>());
    EXPECT_EQ(access["latency_ns"]["get"]["count"], access["gets"]);
    EXPECT_EQ(access["latency_ns"]["set"]["count"], access["sets"]);
    EXPECT_EQ(access["series"].back()["t"].get<double>(), access["seconds"].get<double>());
    EXPECT_TRUE(server.misrouted().empty());
    const auto& client = outcome.report["client"];
    EXPECT_EQ(client["threads"], 2);
    EXPECT_GT(client["cpu_us_per_op"].get<double>(), 0);
}

TEST(Pillowfight, KeyModWritesAndReadsDisjointKeys) {
    FakeServer server;
    auto options = optionsFor(server);
    options.noPopulation = true;
    options.access.semantics = KeySemantics::kKeyMod;
    options.access.setPercent = 20;
    options.access.maxOps = 5000;
    const auto outcome = run(options);
    const auto& access = outcome.report["access"];
    EXPECT_EQ(access["hits"], 0);  // no read key was ever written
    EXPECT_EQ(access["misses"], access["gets"]);
    EXPECT_EQ(access["errors"]["other"], 0);
    for (const auto& [key, value] : server.contents()) {
        EXPECT_LT(std::stoull(key) % 100, 20U);
    }
}

TEST(Pillowfight, SetShareBoundsAreExact) {
    FakeServer server;
    auto options = optionsFor(server);
    options.noPopulation = true;
    options.access.maxOps = 2000;
    options.access.setPercent = 0;
    EXPECT_EQ(run(options).report["access"]["sets"], 0);
    options.access.setPercent = 100;
    EXPECT_EQ(run(options).report["access"]["gets"], 0);
}

TEST(Pillowfight, SharedSequenceDrawsTheSameKeysOnAllConnections) {
    FakeServer separate;
    FakeServer shared;
    for (auto* server : {&separate, &shared}) {
        auto options = optionsFor(*server);
        options.noPopulation = true;
        options.threads = 2;
        options.access.setPercent = 100;
        options.access.maxOps = 600;
        options.access.sharedSequence = server == &shared;
        run(options);
    }
    EXPECT_LE(shared.contents().size(), 300U);
    EXPECT_GT(separate.contents().size(), 350U);
}

TEST(Pillowfight, SequentialCoversAllKeysInOrder) {
    FakeServer server;
    auto options = optionsFor(server);
    options.noPopulation = true;
    options.threads = 2;
    options.access.sequential = true;
    options.access.setPercent = 100;
    options.access.maxOps = 1004;  // each of two lanes covers its half once
    run(options);
    EXPECT_EQ(server.contents().size(), 1003U);
}

TEST(Pillowfight, CyclesAreBatchesPerThread) {
    FakeServer server;
    auto options = optionsFor(server);
    options.threads = 2;
    options.connections = 2;
    options.noPopulation = true;
    options.access.maxCycles = 7;
    EXPECT_EQ(run(options).report["access"]["ops"], 2 * 7 * 50);
}

TEST(Pillowfight, RefusalsAreCountedByKindAndDoNotStopTheMixedPhase) {
    FakeServer server({.tmpfailEvery = 10, .enomemEvery = 11, .notMyVbucketEvery = 10});
    auto options = optionsFor(server);
    options.noPopulation = true;
    options.access.setPercent = 50;
    options.access.maxOps = 4000;
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    const auto& errors = outcome.report["access"]["errors"];
    const auto& access = outcome.report["access"];
    EXPECT_EQ(errors["etmpfail"], access["sets"].get<int>() / 10);
    EXPECT_EQ(errors["not_my_vbucket"], access["gets"].get<int>() / 10);
    EXPECT_GT(errors["enomem"], 0);
    EXPECT_EQ(access["ops"], 4000);
    EXPECT_EQ(seriesSum(access, "errors"), errors["etmpfail"].get<std::uint64_t>() +
                                                   errors["not_my_vbucket"].get<std::uint64_t>() +
                                                   errors["enomem"].get<std::uint64_t>());
}

TEST(Pillowfight, AnswersInAnyPiecesAreUnderstood) {
    for (const std::uint32_t piece : {1U, 23U, 25U, 4096U}) {
        FakeServer server({.dribble = piece});
        auto options = optionsFor(server);
        options.access.items = 100;
        options.access.maxOps = 500;
        const auto outcome = run(options);
        EXPECT_EQ(outcome.result.failure, "") << piece;
        EXPECT_EQ(outcome.report["access"]["hits"], outcome.report["access"]["gets"]) << piece;
    }
}

TEST(Pillowfight, ValuesLargerThanTheReceiveBufferAreSkippedNotStored) {
    FakeServer server;
    auto options = optionsFor(server);
    options.access.items = 5;
    options.access.batch = 4;
    options.minSize = options.maxSize = 3 * Channel::kReceiveSize + 17;
    options.access.setPercent = 50;
    options.access.maxOps = 60;
    const auto outcome = run(options);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_EQ(outcome.report["access"]["ops"], 60);
    EXPECT_EQ(outcome.report["access"]["misses"], 0);
}

TEST(Pillowfight, JsonDocumentsAreJson) {
    FakeServer server;
    auto options = optionsFor(server);
    options.json = true;
    options.minSize = 11;
    options.maxSize = 200;
    options.populateOnly = true;
    run(options);
    for (const auto& [key, value] : server.contents()) {
        const auto document = Json::parse(value, nullptr, false);
        ASSERT_TRUE(document.is_object()) << value;
        EXPECT_EQ(document["data"].get<std::string>().size(), value.size() - 11);
    }
}

TEST(Pillowfight, RateSpreadsTheLoadAndLatencyIsFromTheDueTime) {
    FakeServer server;
    auto options = optionsFor(server);
    options.noPopulation = true;
    options.access.batch = 1;
    options.access.rate = 500;
    options.connections = 2;
    options.duration = 1.2;
    const auto outcome = run(options);
    const auto& access = outcome.report["access"];
    // A machine that stalls near the end sends less, and reports it.
    EXPECT_EQ(access["ops"].get<int>() + access["overdue"].get<int>(), 600);
    EXPECT_GT(access["ops"].get<int>(), 0);
    EXPECT_GT(access["seconds"].get<double>(), 0.9);
}

TEST(Pillowfight, WithARateTheTimeAfterTheLastAnswerCounts) {
    FakeServer server;
    auto options = optionsFor(server);
    options.noPopulation = true;
    options.access.batch = 1;
    options.access.rate = 4;
    options.duration = 0.5;  // the last batch is due at 0.25 s
    const auto outcome = run(options);
    EXPECT_GE(outcome.report["access"]["seconds"].get<double>(), 0.5);
    EXPECT_GE(outcome.report["access"]["series"].back()["t"].get<double>(), 0.5);
}

TEST(Pillowfight, AServerThatIsTooSlowForTheRateShowsIt) {
    FakeServer server({.silentAfter = 100});
    auto options = optionsFor(server);
    options.connection.opTimeout = 0.4;
    options.noPopulation = true;
    options.access.batch = 10;
    options.access.rate = 5000;
    options.window = 2;
    options.duration = 5;
    const auto outcome = run(options);
    EXPECT_NE(outcome.result.failure, "");  // no answer for 0.4 s
    EXPECT_EQ(outcome.report["access"]["errors"]["timeout"], 20);
    EXPECT_EQ(outcome.report["access"]["ops"], 100);
    EXPECT_EQ(outcome.report["failure"], outcome.result.failure);
}

TEST(Pillowfight, ALostConnectionFailsAndKeepsTheMeasurements) {
    FakeServer server({.closeAfter = 2000});
    auto options = optionsFor(server);
    options.threads = 2;
    options.duration = 30;
    const auto outcome = run(options);
    EXPECT_NE(outcome.result.failure.find("connection"), std::string::npos)
            << outcome.result.failure;
    EXPECT_EQ(outcome.report["populate"]["ops"], 1003);
    EXPECT_GT(outcome.report["access"]["ops"].get<int>(), 500);
}

TEST(Pillowfight, AnswersOutOfOrderAreAProtocolFailure) {
    FakeServer server({.shuffleOpaques = true});
    const auto outcome = run(optionsFor(server));
    EXPECT_EQ(outcome.result.failure, "the server answered out of order");
}

TEST(Pillowfight, RampIsLeftOutOfLatenciesOnly) {
    FakeServer server;
    auto options = optionsFor(server);
    options.duration = 0.5;
    options.ramp = 0.3;
    const auto access = run(options).report["access"];
    const auto recorded = access["latency_ns"]["get"]["count"].get<double>();
    EXPECT_GT(recorded, 0);
    EXPECT_LT(recorded, access["gets"].get<double>());
    EXPECT_EQ(seriesSum(access, "ops"), access["ops"].get<std::uint64_t>());
}

TEST(Pillowfight, APasswordIsNotSentToAServerThatOffersPlainOnly) {
    FakeServer server({.mechanisms = "PLAIN"});
    auto options = optionsFor(server);
    options.connection.session.user = "user";
    options.connection.session.password = "secret";
    EXPECT_NE(run(options).result.failure.find("no mechanism"), std::string::npos);
    EXPECT_EQ(server.logins(), 0U);
}

TEST(Pillowfight, SessionFailuresNameTheirStep) {
    FakeServer server({.mechanisms = "OAUTHBEARER"});
    auto options = optionsFor(server);
    options.connection.session.user = "user";
    EXPECT_NE(run(options).result.failure.find("no mechanism"), std::string::npos);
    options = optionsFor(server);
    options.connection.session.bucket = "nosuch";
    const std::string where = "127.0.0.1:" + std::to_string(server.port()) + ": ";
    EXPECT_EQ(run(options).result.failure.find(where + "select bucket 'nosuch'"), 0U);
    std::uint16_t unused = 0;
    {
        FakeServer gone;
        unused = gone.port();
    }
    options = optionsFor(server);
    options.threads = 3;
    options.connection.session.port = unused;
    EXPECT_NE(run(options).result.failure.find("cannot connect"), std::string::npos);
}

}  // namespace
}  // namespace kv::load::pillowfight_test
