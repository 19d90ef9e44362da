// pillowfight in every protocol, against a server inside this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "load/generators/drawn_keys.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/fake_server.h"
#include "load/protocols/handshake.h"
#include "load/protocols/key_codec.h"

namespace kv::load::protocols_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kItems = 503;

PillowfightOptions optionsFor(const FakeServer& server, Protocol protocol) {
    PillowfightOptions options;
    options.connection.session.port = server.port();
    options.connection.session.protocol = protocol;
    options.connection.opTimeout = 5;
    options.access.items = kItems;
    options.access.batch = 50;
    options.access.setPercent = 30;
    options.access.maxOps = 3001;
    options.access.seed = 42;
    options.minSize = 20;
    options.maxSize = 64;
    options.verifyEvery = 1;
    return options;
}

struct Outcome {  // NOLINT(bugprone-exception-escape): of the JSON's implicit members
    std::string failure;
    Json report;
};

Outcome run(const PillowfightOptions& options) {
    Outcome outcome;
    outcome.failure = runPillowfight(options, outcome.report).failure;
    return outcome;
}

class Protocols : public testing::TestWithParam<Protocol> {
  protected:
    static bool frames() {
        return GetParam() == Protocol::kCouchbase || GetParam() == Protocol::kBinary;
    }
    static FakeServerOptions faults() {
        FakeServerOptions options;
        options.speaks = GetParam();
        options.vbuckets = GetParam() == Protocol::kCouchbase ? 64 : 1;
        return options;
    }
};

TEST_P(Protocols, StoresAndReadsAndCountsEverything) {
    FakeServer server(faults());
    auto options = optionsFor(server, GetParam());
    options.threads = 2;
    options.connections = 2;
    options.window = 3;
    const auto [failure, report] = run(options);
    EXPECT_EQ(failure, "");
    const auto& access = report["access"];
    EXPECT_EQ(report["options"]["protocol"], toString(GetParam()));
    EXPECT_EQ(report["populate"]["ops"], kItems);
    EXPECT_EQ(access["ops"], 3001);
    EXPECT_EQ(access["hits"], access["gets"]);
    EXPECT_EQ(access["verified"], access["gets"]);
    EXPECT_EQ(access["latency_ns"]["get"]["count"], access["gets"]);
    EXPECT_EQ(access["latency_ns"]["set"]["count"], access["sets"]);
    EXPECT_EQ(server.gets(), access["gets"].get<std::uint64_t>());
    EXPECT_EQ(server.sets(), access["sets"].get<std::uint64_t>() + kItems);
    const auto contents = server.contents();
    EXPECT_EQ(contents.size(), kItems);
    for (const auto& [key, value] : contents) {
        EXPECT_EQ(key.size(), KeyCodec::kMaxDigits);
        EXPECT_GE(value.size(), 20U);
        EXPECT_LE(value.size(), 64U);
    }
}

TEST_P(Protocols, ContentsAreTheSameInEveryProtocol) {
    auto other = faults();
    other.dribble = 7;
    FakeServer server(other);
    FakeServer reference;
    auto options = optionsFor(server, GetParam());
    options.populateOnly = true;
    EXPECT_EQ(run(options).failure, "");
    options = optionsFor(reference, Protocol::kCouchbase);
    options.populateOnly = true;
    EXPECT_EQ(run(options).failure, "");
    EXPECT_EQ(server.contents(), reference.contents());
}

TEST_P(Protocols, KeysComeBackWithOtherLengths) {
    FakeServer server(faults());
    auto options = optionsFor(server, GetParam());
    options.minKeySize = 20;
    options.maxKeySize = 250;
    options.populateOnly = true;
    EXPECT_EQ(run(options).failure, "");
    EXPECT_EQ(server.contents().size(), kItems);
    options.share = 60;
    for (std::uint32_t draw = 0; draw < 3; ++draw) {  // the fake server deletes nothing
        options.draw = draw;
        options.keyDraws = draw + 1;
        EXPECT_EQ(run(options).failure, "");
        EXPECT_NEAR(static_cast<double>(server.contents().size()), (1 + 0.58 * (draw + 1)) * kItems,
                    0.1 * kItems);
    }
    std::set<std::size_t> lengths;
    for (const auto& [key, value] : server.contents()) {
        lengths.insert(key.size());
    }
    EXPECT_EQ(lengths.size(), DrawnKeys::kMostLengths);
    options.populateOnly = false;
    options.noPopulation = true;
    const auto [failure, report] = run(options);
    EXPECT_EQ(failure, "");
    EXPECT_EQ(report["access"]["hits"], report["access"]["gets"]);
    EXPECT_EQ(report["access"]["verified"], report["access"]["gets"]);
    EXPECT_TRUE(server.misrouted().empty());
}

TEST_P(Protocols, MissesAndRefusalsAreCounted) {
    auto some = faults();
    some.enomemEvery = 10;
    some.evictEvery = 7;
    FakeServer server(some);
    auto options = optionsFor(server, GetParam());
    options.access.batch = 1;
    options.noPopulation = true;
    const auto [failure, report] = run(options);
    EXPECT_EQ(failure, "");
    const auto& access = report["access"];
    EXPECT_EQ(access["errors"]["enomem"], access["sets"].get<int>() / 10);
    EXPECT_EQ(access["errors"]["other"], 0);
    if (!frames()) {
        EXPECT_THAT(access["refusal"].get<std::string>(),
                    HasSubstr(isResp(GetParam()) ? "-OOM command not allowed"
                                                 : "SERVER_ERROR out of memory storing object"));
    }
    EXPECT_GT(access["misses"].get<int>(), 100);
    EXPECT_GT(access["hits"].get<int>(), 100);
    EXPECT_EQ(access["hits"].get<int>() + access["misses"].get<int>(), access["gets"].get<int>());
    options.noPopulation = false;
    options.populateOnly = true;
    EXPECT_EQ(run(options).report["populate"].value("refusal", ""), access.value("refusal", ""));
    options.noPopulation = true;
    options.populateOnly = false;
    // In batches a quiet protocol knows which answers were left out.
    options.access.batch = 50;
    const auto again = run(options).report["access"];
    EXPECT_EQ(again["gets"], access["gets"]);
    EXPECT_EQ(again["hits"].get<int>() + again["misses"].get<int>(), again["gets"].get<int>());
}

TEST_P(Protocols, AWrongValueEndsTheRun) {
    auto some = faults();
    some.corruptEvery = 100;
    FakeServer server(some);
    auto options = optionsFor(server, GetParam());
    const auto [failure, report] = run(options);
    EXPECT_THAT(failure, HasSubstr("wrong value"));
    EXPECT_LT(report["access"]["ops"].get<int>(), 3001);
    options.verifyEvery = 0;
    EXPECT_EQ(run(options).failure, "");
}

TEST_P(Protocols, ALostConnectionFails) {
    auto some = faults();
    some.closeAfter = 2000;
    FakeServer server(some);
    const auto [failure, report] = run(optionsFor(server, GetParam()));
    EXPECT_THAT(failure, HasSubstr("connection"));
    EXPECT_GT(report["access"]["ops"].get<int>(), 1000);
}

TEST_P(Protocols, IsFoundByAskingTheServer) {
    FakeServer server(faults());
    auto options = optionsFor(server, Protocol::kAuto);
    options.access.maxOps = 100;
    const auto [failure, report] = run(options);
    EXPECT_EQ(failure, "");
    auto expected = GetParam();
    expected = expected == Protocol::kMeta ? Protocol::kText : expected;
    expected = expected == Protocol::kResp3 ? Protocol::kResp2 : expected;
    EXPECT_EQ(report["options"]["protocol"], toString(expected));
    EXPECT_EQ(report["options"]["protocol_asked"], "auto");
    EXPECT_EQ(server.contents().size(), kItems);
}

TEST_P(Protocols, APasswordIsProved) {
    if (frames()) {
        GTEST_SKIP() << "SASL has tests of its own";
    }
    auto some = faults();
    some.password = "secret";
    FakeServer server(some);
    auto options = optionsFor(server, GetParam());
    options.access.maxOps = 100;
    EXPECT_THAT(run(options).failure, HasSubstr("--password-file"));
    options.connection.session.user = "user";
    options.connection.session.password = "wrong";
    EXPECT_THAT(run(options).failure, HasSubstr("wrong"));
    options.connection.session.password = "secret";
    EXPECT_EQ(run(options).failure, "");
    options.connection.session.user.clear();
    EXPECT_EQ(run(options).failure.empty(), isResp(GetParam()));
}

TEST_P(Protocols, AFullServerIsReported) {
    if (frames()) {
        GTEST_SKIP() << "a protocol without lines";
    }
    auto some = faults();
    some.greeting = isResp(GetParam()) ? "-ERR max number of clients reached\r\n"
                                       : "ERROR Too many open connections\r\n";
    FakeServer server(some);
    EXPECT_THAT(run(optionsFor(server, GetParam())).failure, HasSubstr("raise the server's"));
    EXPECT_THAT(run(optionsFor(server, Protocol::kAuto)).failure, HasSubstr("raise the server's"));
}

TEST_P(Protocols, OtherLinesEndTheRun) {
    if (frames()) {
        GTEST_SKIP() << "a protocol without lines";
    }
    for (const std::string line : {"what?", "-MOVED 1 h:2", "CLIENT_ERROR no", "+OK", "STORED"}) {
        auto some = faults();
        some.getLine = line;
        FakeServer server(some);
        EXPECT_NE(run(optionsFor(server, GetParam())).failure, "") << line;
    }
}

TEST_P(Protocols, AServerOfAnotherProtocolIsRefusedBeforeTheLoad) {
    FakeServer server(faults());
    for (const auto protocol : {Protocol::kBinary, Protocol::kText, Protocol::kResp2}) {
        auto options = optionsFor(server, protocol);
        options.connection.opTimeout = 0.3;
        options.connection.session.timeout = std::chrono::milliseconds(300);
        const bool same = protocol == GetParam() ||
                          (protocol == Protocol::kText && GetParam() == Protocol::kMeta) ||
                          (protocol == Protocol::kResp2 && GetParam() == Protocol::kResp3) ||
                          (protocol == Protocol::kBinary && frames());
        if (!same) {
            EXPECT_NE(run(options).failure, "") << toString(protocol);
            EXPECT_EQ(server.sets(), 0U);
        }
    }
}

std::string nameOf(const testing::TestParamInfo<Protocol>& info) {
    return std::string(toString(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, Protocols,
                         testing::Values(Protocol::kCouchbase, Protocol::kBinary, Protocol::kText,
                                         Protocol::kMeta, Protocol::kResp2, Protocol::kResp3),
                         nameOf);

TEST(MixedProtocols, VariantsOfAGroupMaySpeakDifferentOnes) {
    FakeServer text({.speaks = Protocol::kText});
    FakeServer redis({.speaks = Protocol::kResp3});
    FakeServer engine;
    auto options = optionsFor(text, Protocol::kCouchbase);
    for (const auto& [server, protocol] :
         {std::pair{&text, Protocol::kText}, std::pair{&redis, Protocol::kAuto},
          std::pair{&engine, Protocol::kCouchbase}}) {
        Variant variant{options.connection.session};
        variant.session.port = server->port();
        variant.session.protocol = protocol;
        options.group.variants.push_back(variant);
    }
    const auto [failure, report] = run(options);
    EXPECT_EQ(failure, "");
    const auto& variants = report["group"]["variants"];
    EXPECT_EQ(variants[0]["protocol"], "text");
    EXPECT_EQ(variants[1]["protocol"], "resp2");
    EXPECT_EQ(variants[1]["protocol_asked"], "auto");
    EXPECT_EQ(variants[2]["protocol"], "couchbase");
    for (const auto& variant : variants) {
        EXPECT_EQ(variant["report"]["access"]["ops"], 3001);
        EXPECT_EQ(variant["report"]["access"]["misses"], 0);
    }
    EXPECT_EQ(text.contents(), engine.contents());
    EXPECT_EQ(redis.contents(), engine.contents());
}

}  // namespace
}  // namespace kv::load::protocols_test
