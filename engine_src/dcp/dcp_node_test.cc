// The DCP connections and streams that users may open.
#include "dcp/dcp_node.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/test_support.h"
#include "executor/fake_executor.h"

namespace kv::dcp {
namespace {

class DcpNodeTest : public testing::Test {
  protected:
    static constexpr uint16_t kVBuckets = 4;

    ~DcpNodeTest() override {
        while (!producers_.empty()) {
            close();
        }
    }
    bool connect(std::string_view user) {
        if (!node_.mayConnect(user)) {
            return false;
        }
        const BucketMemoryGuard guard(bucket_->memory());
        producers_.push_back(node_.makeProducer("client-" + std::to_string(++named_), user, [] {}));
        return true;
    }
    /// Closes the oldest connection.
    void close() {
        node_.retire(std::move(producers_.front()));
        producers_.erase(producers_.begin());
        executor_.runDue();
    }
    /// Opens streams of the newest connection; returns how many were allowed.
    size_t openStreams(std::string_view user) {
        size_t opened = 0;
        for (uint16_t vb = 0; vb < kVBuckets && node_.mayStream(user); ++vb) {
            const BucketMemoryGuard guard(bucket_->memory());
            const BucketProducer::Seen seen(bucket_->vbucket(Vbid{vb}));
            opened += producers_.back()->open({.vbid = Vbid{vb}}, seen) ? 1U : 0U;
        }
        return opened;
    }

    std::unique_ptr<Bucket> bucket_ =
            test::makeBucket(BucketType::Ephemeral, {.vbuckets = kVBuckets});
    FakeExecutor executor_;
    DcpNode node_{
            *bucket_, executor_, std::chrono::nanoseconds(0), {}, {.perNode = 4, .perUser = 2}};
    std::vector<std::shared_ptr<BucketProducer>> producers_;
    int named_{0};
};

TEST_F(DcpNodeTest, AUserLeavesConnectionsToOthers) {
    EXPECT_TRUE(connect("a"));
    EXPECT_TRUE(connect("a"));
    EXPECT_FALSE(connect("a"));
    EXPECT_TRUE(connect("b"));
    EXPECT_TRUE(connect("c"));
    EXPECT_FALSE(connect("d")) << "the node has four";
    close();
    EXPECT_TRUE(connect("a"));
}

TEST_F(DcpNodeTest, AProducerIsDestroyedByNobodyWhoOnlyLooksAtIt) {
    ASSERT_TRUE(connect("a"));
    auto looking = producers_.front();  // as a thread has it that counts streams
    const std::weak_ptr<BucketProducer> producer = looking;
    close();
    EXPECT_EQ(node_.ending(), 1U);
    looking.reset();
    EXPECT_FALSE(producer.expired()) << "that may have to wait for a read from disk";
    executor_.advance(std::chrono::milliseconds(1));
    EXPECT_TRUE(producer.expired());
    EXPECT_EQ(node_.ending(), 0U);
}

TEST_F(DcpNodeTest, WithoutUsersOnlyTheNodeIsLimited) {
    for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(connect(""));
    }
    EXPECT_FALSE(connect(""));
}

TEST_F(DcpNodeTest, StreamsTakeABoundedShareOfTheQuota) {
    bucket_->setQuota(DcpNode::kStreamBytes * 10 * 20);  // a tenth of it for 20 streams
    ASSERT_TRUE(connect("a"));
    EXPECT_EQ(openStreams("a"), 4U);
    ASSERT_TRUE(connect("a"));
    EXPECT_EQ(openStreams("a"), 4U);
    ASSERT_TRUE(connect("b"));
    EXPECT_EQ(openStreams("b"), 4U);
    bucket_->setQuota(1);
    EXPECT_FALSE(node_.mayStream("a")) << "two streams of each vBucket";
    EXPECT_TRUE(node_.mayStream("b")) << "four of each, for all users";
    ASSERT_TRUE(connect("b"));
    EXPECT_EQ(openStreams("b"), 4U);
    EXPECT_FALSE(node_.mayStream("c"));
    EXPECT_FALSE(node_.mayStream(""));
    close();
    EXPECT_TRUE(node_.mayStream("a"));
    EXPECT_TRUE(node_.mayStream(""));
}

}  // namespace
}  // namespace kv::dcp
