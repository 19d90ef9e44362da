// Makes each allocation of one request fail once: the document is stored completely or not at all,
// and the server continues. (server_test.cc tests the fate of the connection.)
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "memory/failing_heap.h"
#include "persistence/temp_dir.h"
#include "server/replication/cluster_fence.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

Frame storeFrame(Opcode opcode, const std::string& value) {
    const bool version = opcode == Opcode::kSetWithMeta;
    return {.opcode = opcode,
            .key = "k",
            .value = value,
            .extras = version ? "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x09"s
                              : std::string(8, '\0')};
}

/// Sends a request in two pieces with its first, second, ... allocation failing, until none fails
/// any more. Returns how many failed.
long failEach(Opcode opcode, const std::string& value, size_t largeFrom = SIZE_MAX) {
    for (long nth = 0;; ++nth) {
        Bench bench;
        bench.largeFrom = largeFrom;
        bench.becomeCouchbase("\0\x08\0\x04"s);
        const auto bytes = storeFrame(opcode, value).bytes();
        const auto middle = bytes.size() / 2;
        VBucket& vbucket = bench.bucket->vbucket(Vbid{0});
        EXPECT_EQ(bench.ask(storeFrame(Opcode::kSet, "before")).status, Status::kSuccess);
        const Seqno before = vbucket.highSeqno();
        const bool failed = runsOutOfMemory(nth, [&] {
            bench.feed(std::string_view(bytes).substr(0, middle));
            bench.feed(std::string_view(bytes).substr(middle));
        });
        const auto which = "allocation " + std::to_string(nth);
        if (!failed) {
            const auto answers = bench.answers();
            EXPECT_EQ(answers.size(), 1U);
            EXPECT_EQ(answers.at(0).status, Status::kSuccess);
        }
        // The connection is closed.
        bench.large = {};
        bench.pending.clear();
        bench.out.clear();
        const bool stored = vbucket.highSeqno() != before;
        EXPECT_EQ(vbucket.highSeqno().get(), before.get() + (stored ? 1 : 0)) << which;
        EXPECT_TRUE(stored || failed) << which;
        EXPECT_TRUE(bench.ask({.opcode = Opcode::kGet, .key = "k"}).value ==
                    (stored ? value : "before"))
                << which;
        EXPECT_EQ(bench.ask(storeFrame(Opcode::kSet, "after")).status, Status::kSuccess) << which;
        EXPECT_EQ(bench.ask({.opcode = Opcode::kGet, .key = "k"}).value, "after") << which;
        if (!failed || testing::Test::HasFailure()) {
            return nth;
        }
    }
}

TEST(RequestAllocationFailure, AtASet) {
    EXPECT_GE(failEach(Opcode::kSet, "value"), 1);
}

TEST(RequestAllocationFailure, AtALargeSet) {
    EXPECT_GE(failEach(Opcode::kSet, std::string(200'000, 'v'), 64 << 10), 1);
}

TEST(RequestAllocationFailure, AtAForeignVersion) {
    EXPECT_GE(failEach(Opcode::kSetWithMeta, "theirs"), 2);
}

/// This node is the only one.
std::shared_ptr<const ClusterConfig> configOf(const Bucket& bucket) {
    const nlohmann::json row{0};
    const nlohmann::json rows(bucket.vbucketCount(), row);
    const nlohmann::json json{
            {"rev", 2},
            {"nodesExt", {{{"thisNode", true}}}},
            {"vBucketServerMap", {{"serverList", {"a:1"}}, {"vBucketMap", rows}}}};
    return std::make_shared<const ClusterConfig>(
            ClusterConfig::parse(json.dump(), bucket.vbucketCount()));
}

TEST(RequestAllocationFailure, AtAConfigThatActivatesVBucketsOfARestartedNode) {
    for (long nth = 0;; ++nth) {
        const TempDir dir;
        const auto bucket = makeBucket();
        const auto config = configOf(*bucket);
        const auto initial = [&bucket] {
            return ClusterConfig("default", bucket->vbucketCount(), 11210, "uuid");
        };
        {
            PublishedConfig inForce(initial(), "uuid");
            ClusterFence before(*bucket, dir.root() / "cluster.json");
            ASSERT_EQ(before.publish(config, inForce), OpStatus::Ok);
        }
        PublishedConfig inForce(initial(), "uuid");
        ClusterFence fence(*bucket, dir.root() / "cluster.json");
        ASSERT_EQ(bucket->vbucket(Vbid{0}).state(), VbState::Pending);
        const auto publish = [&] { return fence.publish(config, inForce); };
        OpStatus status{};
        const bool failed = runsOutOfMemory(nth, [&] { status = publish(); });
        EXPECT_EQ(failed ? publish() : status, OpStatus::Ok) << "allocation " << nth;
        EXPECT_FALSE(fence.isUp());
        EXPECT_EQ(publish(), OpStatus::KeyExists);
        for (uint16_t id = 0; id < bucket->vbucketCount(); ++id) {
            EXPECT_EQ(bucket->vbucket(Vbid{id}).state(), VbState::Active)
                    << "allocation " << nth << ", vBucket " << id;
        }
        if (!failed || testing::Test::HasFailure()) {
            EXPECT_GE(nth, bucket->vbucketCount());
            return;
        }
    }
}

}  // namespace
}  // namespace kv::server
