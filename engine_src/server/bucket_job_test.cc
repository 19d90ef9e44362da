// FLUSH and DEL_VBUCKET of a whole server: however long they take, the front-end threads serve.
#include "server/bucket_job.h"

#include <memory>

#include "server/op_target.h"
#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

std::string flushBytes(uint32_t opaque = 0) {
    return Frame{.opcode = Opcode::kFlush, .opaque = opaque}.bytes();
}

class BucketJobTest : public ServerTest {
  protected:
    void SetUp() override { start({}, nullptr, 1); }
    /// While it is held nothing that goes through all documents of vBucket 0 ends.
    std::unique_ptr<HashIndex::Guard> holdUp() {
        return std::make_unique<HashIndex::Guard>(
                bucket_->vbucket(Vbid{0}).hashTable().lock("held"));
    }
    /// A key of another vBucket than 0, which clients that say nothing else ask for.
    std::string otherKey() { return keyBeside(Vbid{0}); }
    std::string keyBeside(Vbid vbid) {
        for (int i = 0;; ++i) {
            std::string key = "k" + std::to_string(i);
            if (vbucketOfKey(key, bucket_->vbucketCount()) != vbid) {
                return key;
            }
        }
    }
};

TEST_F(BucketJobTest, OtherConnectionsOfTheThreadAreServedWhileABucketIsFlushed) {
    auto asking = connect();
    auto other = connect();
    const std::string key = otherKey();
    auto held = holdUp();
    asking.send(flushBytes());
    other.send(setBytes(key, "v") + getBytes(key));
    EXPECT_EQ(other.receive(2).size(), 2U);
    held.reset();
    EXPECT_EQ(asking.receive(1).at(0).status, Status::kSuccess);
    other.send(getBytes(key));
    EXPECT_EQ(other.receive(1).at(0).status, Status::kKeyEnoent);
}

TEST_F(BucketJobTest, TheyAreServedWhileAVBucketIsDeleted) {
    auto asking = connect();
    auto other = connect();
    const std::string key = otherKey();
    bucket_->setVBucketState(Vbid{0}, VbState::Dead, OpTime::now());
    auto held = holdUp();
    asking.send(Frame{.opcode = Opcode::kDelVBucket}.bytes());
    other.send(setBytes(key, "v") + getBytes(key));
    EXPECT_EQ(other.receive(2).size(), 2U);
    held.reset();
    EXPECT_EQ(asking.receive(1).at(0).status, Status::kSuccess);
}

TEST_F(BucketJobTest, TheyAreServedWhileTheNamesOfAVBucketAreLookedThrough) {
    auto asking = connect();
    auto other = connect();
    asking.send(setBytes("one", "v"));
    EXPECT_EQ(asking.receive(1).size(), 1U);
    const Vbid vbid = vbucketOfKey("one", bucket_->vbucketCount());
    auto held = std::make_unique<HashIndex::Guard>(bucket_->vbucket(vbid).hashTable().lock("held"));
    asking.send(Frame{.opcode = Opcode::kGetKeys, .key = "a", .vbucket = vbid.get(), .opaque = 7}
                        .bytes() +
                flushBytes(8));
    const std::string key = keyBeside(vbid);
    other.send(setBytes(key, "v") + getBytes(key));
    EXPECT_EQ(other.receive(2).size(), 2U);
    held.reset();
    const auto answers = asking.receive(2);
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0].opaque, 7U);
    EXPECT_EQ(answers[0].value, std::string("\0\3one", 5));
    EXPECT_EQ(answers[1].opaque, 8U);
    EXPECT_TRUE(answers[1].value.empty());
}

TEST_F(BucketJobTest, ThePipelineBehindItIsRunAfterwards) {
    auto client = connect();
    const std::string key = otherKey();
    auto held = holdUp();
    client.send(setBytes(key, "old", 1) + flushBytes(2) + getBytes(key, 3) +
                setBytes(key, "new", 4) + getBytes(key, 5));
    EXPECT_EQ(client.receive(1).at(0).opaque, 1U);
    held.reset();
    const auto answers = client.receive(4);
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].opaque, 2U);
    EXPECT_EQ(answers[0].status, Status::kSuccess);
    EXPECT_EQ(answers[1].status, Status::kKeyEnoent);
    EXPECT_EQ(answers[3].value, "new");
    EXPECT_EQ(sum(&FrontEndStats::flushes), 1U) << "however often it was looked at";
}

TEST_F(BucketJobTest, WhatItTakesIsChargedToNobody) {
    auto client = connect();
    const auto flushTwice = [&client] {
        client.send(flushBytes() + flushBytes());
        EXPECT_EQ(client.receive(2).size(), 2U);
    };
    flushTwice();
    const auto before = bucket_->memory().precise();
    for (int round = 0; round < 50; ++round) {
        flushTwice();
    }
    EXPECT_EQ(bucket_->memory().precise(), before);
}

}  // namespace
}  // namespace kv::server
