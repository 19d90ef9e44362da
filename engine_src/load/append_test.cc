// The append workload as a whole, against a server inside this process.
#include "load/append.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "load/fake_server.h"

namespace kv::load {
namespace {

using Json = nlohmann::ordered_json;

// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON's implicit members
struct Outcome {
    CrewResult result;
    Json report;
    std::map<std::string, std::string> contents;
    std::uint64_t expectedFields = 0;

    std::uint32_t checksum() const {
        auto crc = crc32(0, nullptr, 0);
        for (const auto& [key, value] : contents) {
            for (const auto* text : {&key, &value}) {
                crc = crc32_z(crc, reinterpret_cast<const unsigned char*>(text->data()),
                              text->size());
            }
        }
        return static_cast<std::uint32_t>(crc);
    }
};

Outcome run(FakeServerOptions faults, std::uint32_t threads, std::uint32_t inFlight,
            std::uint64_t items = 400, std::uint64_t seed = 9) {
    FakeServer server(std::move(faults));
    AppendOptions options;
    options.connection.session.port = server.port();
    options.connection.opTimeout = 5;
    options.items = items;
    options.seed = seed;
    options.threads = threads;
    options.inFlight = inFlight;
    options.rounds = 3;
    AppendStore store(items, seed, options.fieldsMin, options.fieldsMax);
    Outcome outcome;
    outcome.result = runAppend(options, store, outcome.report);
    outcome.contents = server.contents();
    EXPECT_TRUE(server.misrouted().empty());
    return outcome;
}

TEST(AppendDocument, IsTheHistoricShape) {
    const auto text = documentText(1, 42, 3);
    EXPECT_EQ(text.size(), documentSize(3));
    EXPECT_EQ(text.substr(0, 43), R"([{"pn": "000000000042", "nam": "ViberPhone_)");
    const auto document = Json::parse(text);
    ASSERT_EQ(document.size(), 3U);
    EXPECT_EQ(document[0], document[2]);  // all fields of a document are equal
    EXPECT_EQ(document[0].dump(),
              R"({"pn":"000000000042","nam":")" + document[0]["nam"].get<std::string>() + "\"}");
    EXPECT_EQ(document[0]["nam"].get<std::string>().size(), 11U + 16U);
    EXPECT_NE(documentText(1, 43, 1).substr(32), documentText(1, 42, 1).substr(32));
    EXPECT_NE(documentText(2, 42, 1), documentText(1, 42, 1));
    EXPECT_EQ(documentSize(11), 682U);
    EXPECT_EQ(documentSize(22), 1364U);
    EXPECT_EQ(documentText(1, kMaxAppendId, 1).substr(9, 12), "999999999999");
}

TEST(AppendDocument, InitialFieldsAreUniformInTheirRange) {
    std::map<std::uint32_t, int> seen;
    for (std::uint64_t id = 1; id <= 12000; ++id) {
        ++seen[initialFields(3, id, 11, 22)];
    }
    ASSERT_EQ(seen.size(), 12U);
    EXPECT_EQ(seen.begin()->first, 11U);
    for (const auto& [fields, count] : seen) {
        EXPECT_NEAR(count, 1000, 150) << fields;
    }
}

TEST(AppendPass, IsTheHistoricPattern) {
    EXPECT_EQ(appendPass(5'000'000, 0, 0).draws, 3'750'000U);
    EXPECT_EQ(appendPass(5'000'000, 0, 0).range, 4'000'000U);
    EXPECT_EQ(appendPass(5'000'000, 0, 2).draws, 937'500U);
    std::uint64_t all = 0;
    for (std::uint32_t round = 0; round < 5; ++round) {
        for (std::uint32_t step = 0; step < 3; ++step) {
            all += appendPass(5'000'000, round, step).draws;
        }
    }
    EXPECT_EQ(all, 32'812'500U);  // 6.5625 times the documents
    for (const std::uint64_t n : {1U, 2U, 3U, 4U, 5U, 7U, 99U, 1003U}) {
        EXPECT_EQ(appendPass(n, 0, 0).range, n * 8 / 10);
        EXPECT_EQ(appendPass(n, 0, 0).draws, appendPass(n, 0, 0).range == 0 ? 0 : n * 75 / 100);
    }
    EXPECT_NE(appendPass(100, 0, 1).stream, appendPass(100, 1, 0).stream);
}

TEST(Append, FinalContentsDoNotDependOnTiming) {
    const auto reference = run({}, 1, 1);
    EXPECT_EQ(reference.result.failure, "");
    ASSERT_EQ(reference.contents.size(), 400U);
    // 3 rounds of floor(.75 n) with n = 400, 200, 100
    EXPECT_EQ(reference.report["update"]["rmw"], 3 * (300 + 150 + 75));
    EXPECT_EQ(reference.report["update"]["misses"], 0);
    std::uint64_t live = 0;
    for (const auto& [key, value] : reference.contents) {
        live += key.size() + value.size();
        EXPECT_TRUE(Json::accept(value)) << value;
    }
    EXPECT_EQ(reference.report["live_bytes"], live);

    struct Case {
        FakeServerOptions faults;
        std::uint32_t threads;
        std::uint32_t inFlight;
    };
    const Case cases[] = {
            {{}, 1, 100},
            {{}, 3, 100},
            {{.dribble = 777}, 2, 400},  // more in flight than documents drawn: all wait
            {{.tmpfailEvery = 9}, 2, 64}};
    for (const auto& each : cases) {
        const auto outcome = run(each.faults, each.threads, each.inFlight);
        EXPECT_EQ(outcome.result.failure, "");
        EXPECT_EQ(outcome.report["update"]["rmw"], reference.report["update"]["rmw"]);
        EXPECT_EQ(outcome.report["update"]["errors"]["other"], 0);
        EXPECT_EQ(outcome.report["live_bytes"], live);
        EXPECT_EQ(outcome.checksum(), reference.checksum());
    }
    EXPECT_NE(run({}, 1, 1, 400, 10).checksum(), reference.checksum());
}

TEST(Append, CountsWhatTheServerRefuses) {
    const auto outcome = run({.tmpfailEvery = 5}, 1, 50);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_GT(outcome.report["update"]["errors"]["etmpfail"], 100);
    EXPECT_GT(outcome.report["update"]["sets"], outcome.report["update"]["rmw"]);
}

TEST(Append, TinyNumbersOfDocumentsEnd) {
    for (const std::uint64_t items : {1U, 2U, 3U, 5U}) {
        const auto outcome = run({}, 2, 4, items);
        EXPECT_EQ(outcome.result.failure, "");
        EXPECT_EQ(outcome.contents.size(), items);
    }
}

TEST(Append, ALostConnectionFails) {
    const auto outcome = run({.closeAfter = 700}, 2, 20);
    EXPECT_NE(outcome.result.failure.find("connection"), std::string::npos);
    EXPECT_EQ(outcome.report["load"]["ops"], 400);
    EXPECT_GT(outcome.report["update"]["ops"], 100);
    const auto early = run({.closeAfter = 100}, 1, 20);
    EXPECT_TRUE(early.report["live_bytes"].is_null());
}

TEST(Append, ASilentServerTimesOut) {
    FakeServer server({.silentAfter = 500});
    AppendOptions options;
    options.connection.session.port = server.port();
    options.connection.opTimeout = 0.3;
    options.items = 400;
    options.inFlight = 10;
    AppendStore store(400, 0, 11, 22);
    Json report;
    const auto result = runAppend(options, store, report);
    EXPECT_NE(result.failure.find("no answer"), std::string::npos);
    EXPECT_EQ(report["update"]["errors"]["timeout"], 10);
}

}  // namespace
}  // namespace kv::load
