// A run in slices and a run at once do the same operations in the same order.
#include "benchmarks/latency_source.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kv::bench {
namespace {

using Json = nlohmann::json;

LatencyOptions small(DcpMode dcp) {
    LatencyOptions options;
    options.items = 300;
    options.bucket = BucketType::Ephemeral;
    options.dcp = dcp;
    return options;
}

TEST(LatencySource, PassesItsPhasesOnceAndInOrder) {
    LatencySource source(small(DcpMode::Notify));
    const auto offers = source.offers();
    ASSERT_EQ(offers.size(), 4U);
    EXPECT_EQ(offers[2].name, "replace");
    EXPECT_EQ(offers[2].pass, 300);
    EXPECT_TRUE(offers[2].once);
    EXPECT_EQ(offers[2].step, 3);
    EXPECT_THROW(source.run("get", 1), std::invalid_argument);
    for (const auto& offer : offers) {
        EXPECT_EQ(source.report(), "null");
        const auto first = source.run(offer.name, 100);
        EXPECT_EQ(first.iterations, 100);
        EXPECT_EQ(first.left, 200);
        EXPECT_GT(first.realNs, 0);
        EXPECT_LE(first.counters.at("p50_us"), first.counters.at("p99_us"));
        EXPECT_THROW(source.run(offer.name, 201), std::invalid_argument);
        EXPECT_EQ(source.run(offer.name, 200).left, 0);
    }
    EXPECT_THROW(source.run("delete", 1), std::invalid_argument);
    const Json report = Json::parse(source.report());
    EXPECT_EQ(report["phases"]["delete"]["n"], 300);
    // Of each key the last change at least: the open checkpoint de-duplicates.
    EXPECT_GE(report["dcp"]["documents"], 300) << "the client did not see everything";
    EXPECT_EQ(Json::parse(source.report()), report);
}

TEST(LatencySource, MayBeGivenUpBeforeItsEnd) {
    LatencySource source(small(DcpMode::Busy));
    source.run("add", 10);
    EXPECT_EQ(source.report(), "null");
}

TEST(LatencySession, AWholeRunGivesEveryPhase) {
    LatencySession session(small(DcpMode::None));
    while (!session.phases().done()) {
        session.advance(session.phases().left());
    }
    const LatencyReport report = session.finish();
    ASSERT_EQ(report.phases.size(), 4U);
    for (const auto& [name, phase] : report.phases) {
        EXPECT_EQ(phase.count, 300U) << name;
    }
    EXPECT_FALSE(report.dcp.has_value());
}

}  // namespace
}  // namespace kv::bench
