// A run in slices and a single run do the same operations in the same order.
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

LatencyOptions withBacklog(DcpMode dcp, Backlog backlog) {
    LatencyOptions options = small(dcp);
    options.bucket = BucketType::Persistent;
    options.backlog = backlog;
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
    // At least the last change of each key: the open checkpoint de-duplicates.
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

TEST(LatencyOptions, DocumentsRotateOverBusyVbucketsThatAreSpreadOverAll) {
    LatencyOptions options;
    options.items = 10;
    options.vbuckets = 8;
    EXPECT_EQ(options.documentsByVbucket(), (std::vector<uint64_t>{2, 2, 1, 1, 1, 1, 1, 1}));
    options.busyVbuckets = 2;
    EXPECT_EQ(options.documentsByVbucket(), (std::vector<uint64_t>{5, 0, 0, 0, 5, 0, 0, 0}));
    EXPECT_EQ(options.vbucketOf(3), Vbid{4});
    options.vbuckets = 1;
    options.busyVbuckets = 0;
    EXPECT_EQ(options.documentsByVbucket(), std::vector<uint64_t>{10});
}

Json runAtOnce(const LatencyOptions& options) {
    LatencySession session(options);
    while (!session.phases().done()) {
        session.advance(session.phases().left());
    }
    return Json::parse(latencyJson(session.finish()));
}

TEST(LatencySession, StreamsOfManyVbucketsBringEveryDocumentAndThoseWithoutSendNothing) {
    for (const DcpMode dcp : {DcpMode::Busy, DcpMode::Notify}) {
        LatencyOptions options = small(dcp);
        options.vbuckets = 32;
        options.busyVbuckets = 4;
        const Json report = runAtOnce(options);
        EXPECT_EQ(report["phases"]["replace"]["n"], 300);
        EXPECT_GE(report["dcp"]["documents"], 300);
        EXPECT_LE(report["dcp"]["documents"], 900);
        EXPECT_FALSE(report["dcp"].contains("items_per_s"));
        EXPECT_EQ(report["options"]["busy_vbuckets"], 4);
    }
}

TEST(LatencySession, ABacklogIsSentDuringThePhasesAfterAdd) {
    LatencyOptions options = withBacklog(DcpMode::Busy, Backlog::Beside);
    options.vbuckets = 16;
    const Json report = runAtOnce(options);
    EXPECT_FALSE(report["dcp"]["documents_after"].contains("add")) << "there was no client yet";
    EXPECT_TRUE(report["dcp"]["documents_after"].contains("delete"));
    EXPECT_GE(report["dcp"]["documents"], 300);
    EXPECT_FALSE(report["dcp"].contains("items_per_s"));
}

TEST(LatencySession, ABacklogThatIsSentAloneIsTimed) {
    LatencyOptions options = withBacklog(DcpMode::Notify, Backlog::Alone);
    options.vbuckets = 16;
    const Json report = runAtOnce(options);
    EXPECT_GT(report["dcp"]["items_per_s"], 0);
    EXPECT_EQ(report["dcp"]["documents_after"]["dcp"], 300);
    EXPECT_FALSE(report["phases"].contains("dcp")) << "one operation has no percentiles";
}

TEST(LatencySource, ABacklogThatIsSentAloneIsOneOperationAfterAdd) {
    LatencySource source(withBacklog(DcpMode::Busy, Backlog::Alone));
    const auto offers = source.offers();
    ASSERT_EQ(offers.size(), 5U);
    EXPECT_EQ(offers[1].name, "dcp");
    EXPECT_EQ(offers[1].pass, 1);
    EXPECT_EQ(offers[1].step, 1);
    for (const auto& offer : offers) {
        const auto slice = source.run(offer.name, *offer.pass);
        EXPECT_EQ(slice.left, 0) << offer.name;
        EXPECT_GT(slice.realNs, 0) << offer.name;
    }
    EXPECT_GT(Json::parse(source.report())["dcp"]["items_per_s"], 0);
}

TEST(LatencyOptions, ContradictionsAreRefused) {
    const auto status = [](std::vector<std::string> words) {
        words.insert(words.begin(), "front_end_latency");
        std::vector<char*> argv;
        for (std::string& word : words) {
            argv.push_back(word.data());
        }
        int exitCode = 0;
        const auto options =
                parseLatencyOptions(static_cast<int>(argv.size()), argv.data(), exitCode);
        EXPECT_EQ(options.has_value(), exitCode == 0);
        return exitCode;
    };
    EXPECT_EQ(status({"--vbuckets=4", "--busy-vbuckets=4", "--dcp=busy", "--backlog=beside"}), 0);
    EXPECT_EQ(status({"--vbuckets=4", "--busy-vbuckets=5"}), 2);
    EXPECT_EQ(status({"--vbuckets=4", "--producer-slots=3"}), 2);
    EXPECT_EQ(status({"--backlog=alone"}), 2);
    EXPECT_EQ(status({"--backlog=aside", "--dcp=busy"}), 2);
    EXPECT_EQ(status({"--backlog=alone", "--dcp=busy", "--bucket-type=ephemeral"}), 2);
    EXPECT_EQ(status({"--buffer-size=512"}), 2);
}

}  // namespace
}  // namespace kv::bench
