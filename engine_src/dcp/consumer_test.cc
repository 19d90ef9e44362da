#include "dcp/consumer.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

namespace kv::dcp {
namespace {

constexpr uint32_t kOpaque = 5;
constexpr Vbid kVb{1};

std::unique_ptr<Bucket> replicaBucket(size_t quota = size_t{64} << 20) {
    BucketConfig config;
    config.vbuckets = 16;
    config.quotaBytes = quota;
    auto bucket = Bucket::createEphemeral(config);
    for (uint16_t vb = 0; vb < config.vbuckets; ++vb) {
        bucket->setVBucketState(Vbid{vb}, VbState::Replica, OpTime::now());
    }
    return bucket;
}

Message document(Vbid vbid, uint64_t seqno, const std::string& key, ItemOp op = ItemOp::Mutation) {
    const ItemMeta meta{.cas = Cas{1000 + seqno}, .seqno = Seqno{seqno}, .revSeqno = 3};
    return Message::document(kOpaque,
                             Item::create(vbid, op, key, meta,
                                          op == ItemOp::Mutation ? Blob::create("v") : BlobPtr{}));
}
Message marker(Vbid vbid, uint64_t start, uint64_t end) {
    return Message::marker(vbid, kOpaque, Seqno{start}, Seqno{end}, kMarkerMemory);
}

template <class Probe>
class ConsumerTest : public testing::Test {
  protected:
    std::unique_ptr<Bucket> bucket_ = replicaBucket();
    BucketMemoryGuard guard_{bucket_->memory()};
    BasicConsumer<Probe> consumer_{*bucket_};
    OpTime now_ = OpTime::now();
};
using Probes = testing::Types<options::ProbeBeforeCopy, options::ProbeAfterCopy>;
TYPED_TEST_SUITE(ConsumerTest, Probes);

TYPED_TEST(ConsumerTest, AppliesSnapshotsWithSeqnoCasAndRevision) {
    auto& consumer = this->consumer_;
    consumer.addStream(kVb, kOpaque);
    EXPECT_EQ(consumer.receive(marker(kVb, 1, 3), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 1, "a"), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 2, "b"), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 3, "c"), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(marker(kVb, 4, 4), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 4, "a", ItemOp::Deletion), this->now_), Applied::Ok);
    VBucket& vbucket = this->bucket_->vbucket(kVb);
    EXPECT_EQ(vbucket.highSeqno(), Seqno{4});
    vbucket.setState(VbState::Active);
    EXPECT_EQ(vbucket.get("a", this->now_).status, OpStatus::KeyNotFound);
    const OpResult b = vbucket.getMeta("b", this->now_);
    EXPECT_EQ(b.cas, Cas{1002});
    EXPECT_EQ(b.number, 3u);
}

TYPED_TEST(ConsumerTest, ACopyKnowsThePurgeSeqnoOfItsSource) {
    auto& consumer = this->consumer_;
    VBucket& vbucket = this->bucket_->vbucket(kVb);
    const auto sent = [&](uint64_t start, uint64_t end, uint64_t purged) {
        Message message = marker(kVb, start, end);
        message.purged = Seqno{purged};
        EXPECT_EQ(consumer.receive(std::move(message), this->now_), Applied::Ok);
    };
    consumer.addStream(kVb, kOpaque);
    sent(0, 9, 7);
    consumer.receive(document(kVb, 4, "a"), this->now_);
    EXPECT_EQ(vbucket.purgedSeqno(), Seqno{7}) << "a reader from 4 misses deletions as well";
    consumer.receive(document(kVb, 9, "b"), this->now_);
    sent(9, 10, 0);
    EXPECT_EQ(vbucket.purgedSeqno(), Seqno{7}) << "an older source reports nothing";
    consumer.receive(document(kVb, 10, "c"), this->now_);
    sent(10, 20, 15);
    consumer.receive(document(kVb, 12, "d"), this->now_);
    EXPECT_EQ(vbucket.purgedSeqno(), Seqno{15});
    vbucket.setState(VbState::Active);
    EXPECT_EQ(vbucket.purgedSeqno(), Seqno{12}) << "its own history also has seqnos up to 15";
}

TYPED_TEST(ConsumerTest, ADeletionWithoutATimeOrOfTheFutureCountsFromNow) {
    auto& consumer = this->consumer_;
    consumer.addStream(kVb, kOpaque);
    consumer.receive(marker(kVb, 1, 4), this->now_);
    consumer.receive(document(kVb, 1, "a", ItemOp::Deletion), this->now_);
    auto timed = document(kVb, 2, "b", ItemOp::Deletion);
    ItemMeta meta{.cas = Cas{5}, .seqno = Seqno{2}, .revSeqno = 3, .exptime = 1'600'000'000};
    timed.item = Item::create(kVb, ItemOp::Deletion, "b", meta, {});
    consumer.receive(std::move(timed), this->now_);
    auto early = document(kVb, 3, "c", ItemOp::Deletion);
    meta.seqno = Seqno{3};
    meta.exptime = this->now_.seconds + 3600;
    early.item = Item::create(kVb, ItemOp::Deletion, "c", meta, {});
    consumer.receive(std::move(early), this->now_);
    auto close = document(kVb, 4, "d", ItemOp::Deletion);
    meta.seqno = Seqno{4};
    meta.exptime = this->now_.seconds + 1;
    close.item = Item::create(kVb, ItemOp::Deletion, "d", meta, {});
    consumer.receive(std::move(close), this->now_);
    VBucket& vbucket = this->bucket_->vbucket(kVb);
    // Otherwise it would be purged at once, and every client of this copy would start over.
    EXPECT_EQ(this->bucket_->purgeTombstones(this->now_), 1U);
    vbucket.setState(VbState::Active);
    EXPECT_EQ(vbucket.getMeta("a", this->now_).exptime, this->now_.seconds);
    EXPECT_EQ(vbucket.getMeta("c", this->now_).exptime, this->now_.seconds);
    EXPECT_EQ(vbucket.getMeta("d", this->now_).exptime, this->now_.seconds + 1) << "as its source";
    EXPECT_EQ(vbucket.getMeta("b", this->now_).status, OpStatus::KeyNotFound) << "purged";
}

TYPED_TEST(ConsumerTest, AVBucketPromotedInMidSnapshotBeginsItsHistoryBeforeThatSnapshot) {
    auto& consumer = this->consumer_;
    consumer.addStream(kVb, kOpaque);
    consumer.receive(marker(kVb, 1, 2), this->now_);
    consumer.receive(document(kVb, 1, "a"), this->now_);
    consumer.receive(document(kVb, 2, "b"), this->now_);
    consumer.receive(marker(kVb, 3, 9), this->now_);
    consumer.receive(document(kVb, 3, "a"), this->now_);
    // The connection breaks; another one continues.
    consumer.closeStream(kVb);
    consumer.addStream(kVb, kOpaque + 1);
    auto rest = marker(kVb, 4, 9);
    rest.opaque = kOpaque + 1;
    EXPECT_EQ(consumer.receive(std::move(rest), this->now_), Applied::Ok);
    auto next = document(kVb, 4, "c");
    next.opaque = kOpaque + 1;
    EXPECT_EQ(consumer.receive(std::move(next), this->now_), Applied::Ok);
    this->bucket_->setVBucketState(kVb, VbState::Active, this->now_);
    // A client with the old history up to 4 has documents of 3..9 without the others.
    EXPECT_EQ(this->bucket_->vbucket(kVb).failoverLog().entries().front().seqno, Seqno{2});
}

TYPED_TEST(ConsumerTest, MessagesHeldBackByAClosedStreamAreAcknowledged) {
    auto& consumer = this->consumer_;
    consumer.addStream(kVb, kOpaque);
    consumer.receive(marker(kVb, 1, 9), this->now_);
    const size_t before = consumer.takeAcknowledgement(1);
    EXPECT_GT(before, 0u);
    this->bucket_->setQuota(1);
    const size_t bytes = document(kVb, 1, "a").wireSize();
    consumer.receive(document(kVb, 1, "a"), this->now_);
    EXPECT_EQ(consumer.takeAcknowledgement(1), 0u) << "held back";
    consumer.closeStream(kVb);
    EXPECT_EQ(consumer.takeAcknowledgement(1), bytes);
    EXPECT_EQ(this->bucket_->vbucket(kVb).highSeqno(), Seqno{0});
}

TYPED_TEST(ConsumerTest, RefusesMessagesThatDoNotFitAndClosesTheStream) {
    auto& consumer = this->consumer_;
    const auto fresh = [&] {
        consumer.addStream(kVb, kOpaque);
        return &consumer;
    };
    EXPECT_EQ(fresh()->receive(document(kVb, 1, "a"), this->now_), Applied::Refused)
            << "no snapshot marker";
    EXPECT_EQ(consumer.findStream(kVb), nullptr);
    EXPECT_EQ(fresh()->receive(marker(kVb, 1, 2), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 2, "a"), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 2, "b"), this->now_), Applied::Refused) << "twice";
    EXPECT_EQ(fresh()->receive(marker(kVb, 1, 2), this->now_), Applied::Refused) << "an old one";
    EXPECT_EQ(fresh()->receive(marker(kVb, 3, 3), this->now_), Applied::Ok);
    EXPECT_EQ(consumer.receive(document(kVb, 4, "b"), this->now_), Applied::Refused) << "beyond";
    fresh();
    this->bucket_->setVBucketState(kVb, VbState::Active, this->now_);
    EXPECT_EQ(consumer.receive(marker(kVb, 3, 5), this->now_), Applied::Refused) << "active";
    EXPECT_EQ(this->bucket_->vbucket(kVb).checkpoints().currentSnapshot().end, Seqno{2});
    EXPECT_EQ(consumer.stats().refused, 5u);
}

TYPED_TEST(ConsumerTest, APromotedVBucketTakesNothingOfTheOldStreamEvenAsAReplicaAgain) {
    auto& consumer = this->consumer_;
    VBucket& vbucket = this->bucket_->vbucket(kVb);
    const auto promoteAndBack = [&] {
        this->bucket_->setVBucketState(kVb, VbState::Active, this->now_);
        this->bucket_->setVBucketState(kVb, VbState::Replica, this->now_);
    };
    consumer.addStream(kVb, kOpaque);
    ASSERT_EQ(consumer.receive(marker(kVb, 1, 9), this->now_), Applied::Ok);
    ASSERT_EQ(consumer.receive(document(kVb, 1, "a"), this->now_), Applied::Ok);
    promoteAndBack();
    EXPECT_EQ(consumer.receive(document(kVb, 2, "b"), this->now_), Applied::Refused);
    consumer.addStream(kVb, kOpaque);
    promoteAndBack();
    EXPECT_EQ(consumer.receive(marker(kVb, 2, 9), this->now_), Applied::Refused);
    EXPECT_EQ(vbucket.highSeqno(), Seqno{1});
    consumer.addStream(kVb, kOpaque);
    EXPECT_EQ(consumer.receive(marker(kVb, 2, 9), this->now_), Applied::Ok) << "a new stream's";
}

TYPED_TEST(ConsumerTest, EndsAStreamAndIgnoresLateMessages) {
    auto& consumer = this->consumer_;
    consumer.addStream(kVb, kOpaque);
    EXPECT_EQ(consumer.receive(Message::streamEnd(kVb, kOpaque, EndStatus::Ok), this->now_),
              Applied::Ended);
    EXPECT_EQ(consumer.findStream(kVb), nullptr);
    EXPECT_EQ(consumer.receive(document(kVb, 1, "a"), this->now_), Applied::Ok);
    EXPECT_EQ(this->bucket_->vbucket(kVb).highSeqno(), Seqno{0});
}

TYPED_TEST(ConsumerTest, AcknowledgesEveryByteOnce) {
    auto& consumer = this->consumer_;
    consumer.addStream(kVb, kOpaque);
    const size_t bytes = marker(kVb, 1, 1).wireSize() + document(kVb, 1, "a").wireSize();
    consumer.receive(marker(kVb, 1, 1), this->now_);
    EXPECT_EQ(consumer.takeAcknowledgement(bytes), 0u) << "not yet enough";
    consumer.receive(document(kVb, 1, "a"), this->now_);
    EXPECT_EQ(consumer.takeAcknowledgement(bytes), bytes);
    EXPECT_EQ(consumer.takeAcknowledgement(1), 0u);
}

TYPED_TEST(ConsumerTest, HoldsBackWhileMemoryIsShortInOrder) {
    auto& consumer = this->consumer_;
    for (uint16_t vb : {uint16_t{1}, uint16_t{9}}) {
        consumer.addStream(Vbid{vb}, kOpaque);
    }
    this->bucket_->setQuota(1);
    std::vector<uint16_t> vbs{1, 9};
    for (const uint16_t vb : vbs) {
        consumer.receive(marker(Vbid{vb}, 1, 25), this->now_);
        for (uint64_t seqno = 1; seqno <= 25; ++seqno) {
            consumer.receive(document(Vbid{vb}, seqno, std::to_string(seqno)), this->now_);
        }
    }
    EXPECT_EQ(consumer.takeAcknowledgement(1), 0u);
    EXPECT_TRUE(consumer.processBuffered(this->now_)) << "memory is still short";
    EXPECT_EQ(this->bucket_->vbucket(Vbid{9}).highSeqno(), Seqno{0});
    this->bucket_->setQuota(size_t{64} << 20);
    consumer.receive(marker(Vbid{1}, 26, 26), this->now_);
    EXPECT_TRUE(consumer.processBuffered(this->now_));
    EXPECT_EQ(this->bucket_->vbucket(Vbid{9}).highSeqno(), Seqno{9}) << "a batch is 10 messages";
    while (consumer.processBuffered(this->now_)) {
    }
    EXPECT_EQ(this->bucket_->vbucket(Vbid{1}).highSeqno(), Seqno{25});
    EXPECT_EQ(this->bucket_->vbucket(Vbid{9}).highSeqno(), Seqno{25});
    EXPECT_EQ(consumer.takeAcknowledgement(1), consumer.stats().bytes);
}

/// The connection's thread receives and closes streams while the task drains and memory runs short
/// and recovers.
TYPED_TEST(ConsumerTest, KeepsOrderWhileReceivingAndDrainingAtOnce) {
    constexpr uint64_t kItems = 3'000;
    auto& consumer = this->consumer_;
    Bucket& bucket = *this->bucket_;
    std::atomic<bool> stop{false};
    std::thread task([&] {
        const BucketMemoryGuard guard(bucket.memory());
        while (!stop) {
            consumer.processBuffered(OpTime::now());
        }
        while (consumer.processBuffered(OpTime::now())) {
        }
    });
    std::mt19937 random(1);
    for (uint16_t vb = 0; vb < 4; ++vb) {
        consumer.addStream(Vbid{vb}, kOpaque);
        consumer.receive(marker(Vbid{vb}, 1, kItems), this->now_);
    }
    for (uint64_t seqno = 1; seqno <= kItems; ++seqno) {
        if (random() % 100 == 0) {
            bucket.setQuota(random() % 2 == 0 ? 1 : size_t{64} << 20);
        }
        for (uint16_t vb = 0; vb < 4; ++vb) {
            const auto key = std::to_string(random() % 100);
            ASSERT_EQ(consumer.receive(document(Vbid{vb}, seqno, key), this->now_), Applied::Ok);
        }
    }
    bucket.setQuota(size_t{64} << 20);
    stop = true;
    task.join();
    for (uint16_t vb = 0; vb < 4; ++vb) {
        EXPECT_EQ(bucket.vbucket(Vbid{vb}).highSeqno(), Seqno{kItems});
    }
    EXPECT_EQ(consumer.stats().refused, 0u);
    EXPECT_EQ(consumer.takeAcknowledgement(1), consumer.stats().bytes);
}

/// Runs an action after the task has looked at a slot.
class ProbeBefore {
  public:
    static void then(std::function<void()> next) { next_ = std::move(next); }

    template <class Slot>
    static auto take(const Slot& slot) {
        auto stream = slot.copy();
        if (stream && next_) {
            std::exchange(next_, {})();
        }
        return stream;
    }

  private:
    static inline std::function<void()> next_;
};

TEST(DcpConsumer, TheLateEndOfAStreamLeavesItsSuccessorAlone) {
    const auto bucket = replicaBucket();
    const BucketMemoryGuard guard(bucket->memory());
    BasicConsumer<ProbeBefore> consumer(*bucket);
    consumer.addStream(kVb, kOpaque);
    const size_t quota = bucket->memory().quota();
    bucket->setQuota(1);
    consumer.receive(Message::streamEnd(kVb, kOpaque, EndStatus::Ok), OpTime::now());
    bucket->setQuota(quota);
    ProbeBefore::then([&] { consumer.addStream(kVb, kOpaque + 1); });
    EXPECT_FALSE(consumer.processBuffered(OpTime::now())) << "the first one's end was all";
    ASSERT_TRUE(consumer.hasStream(kVb));
    EXPECT_EQ(consumer.findStream(kVb)->opaque(), kOpaque + 1);
    EXPECT_EQ(consumer.takeAcknowledgement(1), consumer.stats().bytes);
}

TEST(DcpConsumerProbe, IsTheOneChosenAtBuildTime) {
    EXPECT_TRUE((std::is_same_v<Consumer, BasicConsumer<options::SelectedDcpConsumerProbe>>));
}

}  // namespace
}  // namespace kv::dcp
