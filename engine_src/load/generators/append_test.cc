// The whole append workload, against a server inside this process.
#include "load/generators/append.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "load/core/round_order.h"
#include "load/generators/append_document.h"
#include "load/protocols/fake_server.h"

namespace kv::load::append_test {
namespace {

using Json = nlohmann::ordered_json;

// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON's implicit members
struct Outcome {
    RunResult result;
    Json report;
    std::map<std::string, std::string> contents;

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
    Outcome outcome;
    outcome.result = runAppend(options, outcome.report);
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

AppendOptions optionsFor(const std::vector<const FakeServer*>& servers) {
    AppendOptions options;
    for (const auto* server : servers) {
        Variant variant;
        variant.session.port = server->port();
        options.group.variants.push_back(variant);
    }
    options.connection.opTimeout = 5;
    options.items = 400;
    options.sliceOps = 40;
    return options;
}

/// Three variants, the second of which is slow and refuses requests: the contents must not depend
/// on it.
TEST(AppendGroup, LeavesTheSameContentsAsSeparateRuns) {
    const auto reference = run({}, 1, 100);
    for (const std::uint32_t threads : {1U, 3U}) {
        FakeServer one;
        FakeServer two({.tmpfailEvery = 9, .dribble = 777});
        FakeServer three;
        FakeServer* const servers[] = {&one, &two, &three};
        auto options = optionsFor({&one, &two, &three});
        options.seed = 9;
        options.rounds = 3;
        options.threads = threads;
        options.inFlight = 50;
        Json report;
        const auto result = runAppend(options, report);
        EXPECT_EQ(result.failure, "");
        const auto& group = report["group"];
        EXPECT_EQ(group["slice_ops"], 40);
        EXPECT_EQ(group["warmup_rounds"], 0);
        // Passes of 300, 150 and 75 draws, in slices of at most 40.
        EXPECT_EQ(group["rounds"], 3 * (8 + 4 + 2));
        for (std::size_t n = 0; n < 3; ++n) {
            const auto& variant = group["variants"][n];
            const auto& part = variant["report"];
            EXPECT_EQ(part["tool"], "append");
            EXPECT_EQ(part["load"]["ops"], 400);
            EXPECT_EQ(part["update"]["rmw"], reference.report["update"]["rmw"]);
            EXPECT_EQ(part["update"]["errors"]["other"], 0);
            EXPECT_FALSE(part["update"].contains("series"));
            EXPECT_EQ(part["live_bytes"], reference.report["live_bytes"]);
            EXPECT_EQ(variant["warmup"]["ops"], 0);
            const auto& slices = variant["slices"];
            ASSERT_EQ(slices["ops"].size(), 42U);
            std::int64_t ops = 0;
            std::int64_t wall = 0;
            for (std::size_t i = 0; i < slices["ops"].size(); ++i) {
                ops += slices["ops"][i].get<std::int64_t>();
                wall += slices["wall_ns"][i].get<std::int64_t>();
                if (n != 1) {  // nothing is refused: 37 or 38 read-modify-writes
                    EXPECT_LE(slices["ops"][i], 2 * 38);
                    EXPECT_GE(slices["ops"][i], 2 * 37);
                }
            }
            EXPECT_EQ(ops, part["update"]["ops"]);
            EXPECT_NEAR(part["update"]["seconds"].get<double>(), static_cast<double>(wall) * 1e-9,
                        1e-6);
            EXPECT_TRUE(servers[n]->contents() == reference.contents);
            EXPECT_TRUE(servers[n]->misrouted().empty());
        }
        EXPECT_GT(group["variants"][1]["report"]["update"]["errors"]["etmpfail"], 10);
    }
}

TEST(AppendGroup, ALostConnectionNamesItsVariant) {
    for (const std::uint32_t closeAfter : {100U, 700U}) {  // while loading, while updating
        FakeServer good;
        FakeServer bad({.closeAfter = closeAfter});
        Json report;
        const auto result = runAppend(optionsFor({&good, &bad}), report);
        EXPECT_TRUE(result.failure.starts_with("variant 1 (")) << result.failure;
        EXPECT_EQ(report["failed_variant"], 1);
        const auto& variants = report["group"]["variants"];
        // Both are filled at the same time, a little on each at a time.
        if (closeAfter == 100) {
            EXPECT_NEAR(static_cast<double>(good.sets()), 100.0, 2.0 * kFillRequests);
        } else {
            EXPECT_EQ(variants[0]["report"]["load"]["ops"], 400);
        }
        EXPECT_EQ(variants[1]["report"]["update"].is_null(), closeAfter == 100);
        EXPECT_EQ(variants[0]["slices"]["ops"].size(), report["group"]["rounds"]);
        EXPECT_EQ(variants[0]["slices"]["ops"].empty(), closeAfter == 100);
    }
}

TEST(AppendGroup, TooFewDocumentsToUpdateEndAtOnce) {
    FakeServer one;
    FakeServer two;
    auto options = optionsFor({&one, &two});
    options.items = 1;
    Json report;
    EXPECT_EQ(runAppend(options, report).failure, "");
    EXPECT_EQ(report["group"]["rounds"], 0);
    EXPECT_EQ(one.contents(), two.contents());
    EXPECT_EQ(one.contents().size(), 1U);
}

TEST(Append, CountsRefusedRequests) {
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
    options.connection.opTimeout = 1;
    options.items = 400;
    options.inFlight = 10;
    Json report;
    const auto result = runAppend(options, report);
    EXPECT_NE(result.failure.find("no answer"), std::string::npos);
    EXPECT_EQ(report["update"]["errors"]["timeout"], 10);
}

}  // namespace
}  // namespace kv::load::append_test
