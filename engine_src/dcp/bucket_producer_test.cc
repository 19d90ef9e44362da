// A bucket's producer during purges and changes of state.
#include "dcp/bucket_producer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bucket/test_support.h"
#include "dcp/bucket_backfill.h"
#include "dcp/consumer.h"
#include "executor/fake_executor.h"
#include "executor/thread_executor.h"

namespace kv::dcp {
namespace {

using namespace std::chrono_literals;

constexpr Vbid kVb{0};

class BucketProducerTest : public testing::Test {
  protected:
    void open(StreamRequest request = {}) {
        request.vbid = kVb;
        ASSERT_TRUE(producer_.open(request, BucketProducer::Seen(client_.vb())));
    }
    /// Returns the messages until none has come for some rounds of steps and background work.
    std::vector<Message> receive() {
        std::vector<Message> received;
        for (int idle = 0; idle < 5; ++idle) {
            while (auto message = producer_.producer().step()) {
                received.push_back(std::move(*message));
                idle = 0;
            }
            executor_.advance(1ms);
        }
        return received;
    }

    void adopt(const std::vector<FailoverEntry>& history) {
        EXPECT_TRUE(bucket_->adoptHistory(kVb, client_.vb().term(), history, client_.now));
    }

    std::unique_ptr<Bucket> bucket_ = test::makeBucket(BucketType::Ephemeral, {.vbuckets = 1});
    test::Client client_{*bucket_};
    FakeExecutor executor_;
    BucketBackfill backfill_{*bucket_};
    BucketProducer producer_{"test", *bucket_, backfill_, executor_, 0ns, [] {}};
};

TEST_F(BucketProducerTest, AChangeSinceTheRequestWasCheckedEndsTheStream) {
    const auto statusOfTheEnd = [this](const BucketProducer::Seen& seen) {
        EXPECT_TRUE(producer_.open({.vbid = kVb}, seen));
        const auto received = receive();
        EXPECT_EQ(received.size(), 1U);
        EXPECT_EQ(received.back().kind, MessageKind::StreamEnd);
        return EndStatus{received.back().detail};
    };
    const BucketProducer::Seen active(client_.vb());
    bucket_->setVBucketState(kVb, VbState::Replica, client_.now);
    EXPECT_EQ(statusOfTheEnd(active), EndStatus::StateChanged);
    const BucketProducer::Seen replica(client_.vb());
    EXPECT_EQ(bucket_->rollBackReplica(kVb, bucket_->vbucket(kVb).term(), Seqno{0}, client_.now),
              Bucket::RollBack::Done);
    EXPECT_EQ(statusOfTheEnd(replica), EndStatus::Rollback);
    const BucketProducer::Seen before(client_.vb());
    adopt({{VbUuid{9}, Seqno{0}}});
    EXPECT_EQ(statusOfTheEnd(before), EndStatus::StateChanged);
}

TEST_F(BucketProducerTest, AReplicasStreamsEndWhenItsHistoryBecomesAnother) {
    bucket_->setVBucketState(kVb, VbState::Replica, client_.now);
    const std::vector<FailoverEntry> history{{VbUuid{9}, Seqno{0}}};
    adopt(history);
    open();
    adopt(history);
    EXPECT_TRUE(receive().empty());
    adopt({{VbUuid{10}, Seqno{0}}, {VbUuid{9}, Seqno{0}}});
    const auto received = receive();
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received.back().kind, MessageKind::StreamEnd);
    EXPECT_EQ(EndStatus{received.back().detail}, EndStatus::StateChanged);
}

TEST_F(BucketProducerTest, AScanUpToAnEarlierSeqnoEndsWhereItsVBucketDoes) {
    for (int i = 0; i < 4; ++i) {
        client_.set("k" + std::to_string(i), "v");
    }
    const auto scan = backfill_.open(kVb, Seqno{0}, Seqno{2});
    EXPECT_EQ(scan->high(), Seqno{4});
    EXPECT_EQ(scan->snapshotEnd(), Seqno{4});
}

/// A backfill whose scan was given back, and whose unread documents were partly overwritten.
class ReplacedScan : public BucketProducerTest {
  protected:
    static constexpr int kItems = 100;
    ReplacedScan() {
        copy_->setVBucketState(kVb, VbState::Replica, client_.now);
        consumer_.addStream(kVb, 0);
    }
    static std::string key(int i) { return "k" + std::to_string(i); }
    /// Returns what the stream sends if the documents from `first` on are overwritten; those that
    /// it has read are left alone.
    std::vector<Message> overwrittenFrom(int first) {
        const std::string value(100'000, 'x');  // a read ends long before the last document
        for (int i = 0; i < kItems; ++i) {
            client_.set(key(i), value);
        }
        open();
        EXPECT_FALSE(producer_.producer().step());
        executor_.advance(1ms);
        const auto stream = producer_.producer().findStream(kVb);
        EXPECT_TRUE(stream->giveScanBack());
        const auto read = static_cast<int>(stream->stats().lastRead.get());
        EXPECT_LT(read, 60);
        for (int i = std::max(first, read); i < kItems - 1; ++i) {
            client_.set(key(i), "new");
        }
        if (first == 0) {
            client_.set(key(kItems - 1), "new");
        }
        return receive();
    }

    std::unique_ptr<Bucket> copy_ = test::makeBucket(BucketType::Ephemeral, {.vbuckets = 1});
    test::Client replica_{*copy_};
    Consumer consumer_{*copy_};
};

TEST_F(ReplacedScan, AReplicaPromotedAtTheEndOfTheFirstScanIsNotConsistentThere) {
    const auto sent = overwrittenFrom(60);
    for (size_t next = 0; replica_.vb().highSeqno() < Seqno{kItems}; ++next) {
        ASSERT_EQ(consumer_.receive(sent.at(next), client_.now), Applied::Ok);
    }
    copy_->setVBucketState(kVb, VbState::Active, client_.now);
    EXPECT_EQ(replica_.valueOf(key(60)), "[key not found]");
    EXPECT_EQ(replica_.vb().failoverLog().entries().front().seqno, Seqno{0});
}

TEST_F(ReplacedScan, AReplicaIsConsistentWhenItHasEverything) {
    for (const Message& message : overwrittenFrom(0)) {
        ASSERT_EQ(consumer_.receive(message, client_.now), Applied::Ok);
        const Seqno high = replica_.vb().highSeqno();
        const bool consistent = high >= replica_.vb().checkpoints().currentSnapshot().end;
        EXPECT_EQ(consistent, copy_->stats().storedValues % kItems == 0) << high.get();
    }
    EXPECT_EQ(replica_.vb().highSeqno(), client_.vb().highSeqno());
    EXPECT_EQ(copy_->stats().storedValues, static_cast<size_t>(kItems));
}

TEST_F(BucketProducerTest, AStreamFromBeforeAPromotionCarriesNothingOfTheNewHistory) {
    for (const VbState before : {VbState::Replica, VbState::Pending}) {
        bucket_->setVBucketState(kVb, before, client_.now);
        open();
        EXPECT_TRUE(receive().empty());
        bucket_->setVBucketState(kVb, VbState::Active, client_.now);
        client_.set("k", "v");
        const auto received = receive();
        ASSERT_EQ(received.size(), 1U);
        EXPECT_EQ(received.back().kind, MessageKind::StreamEnd);
        EXPECT_EQ(EndStatus{received.back().detail}, EndStatus::StateChanged);
        client_.vb().clear({}, client_.now);
    }
}

TEST_F(BucketProducerTest, AStateThatStaysTheSameEndsNoStream) {
    open();
    bucket_->setVBucketState(kVb, VbState::Active, client_.now);
    client_.set("k", "v");
    const auto received = receive();
    ASSERT_EQ(received.size(), 2U);
    EXPECT_EQ(received.back().kind, MessageKind::Mutation);
}

/// With all the threads of a node; the streams are requested as a follower does.
TEST(BucketProducerStress, AStreamCarriesOnlySeqnosOfTheHistoryThatItWasOpenedWith) {
    const auto bucket = test::makeBucket(BucketType::Ephemeral, {.vbuckets = 1});
    const VBucket& vbucket = bucket->vbucket(kVb);
    BucketBackfill backfill(*bucket);
    ThreadExecutor executor{ThreadExecutorConfig{}};
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        const BucketMemoryGuard guard(bucket->memory());
        for (uint64_t n = 0; !stop; ++n) {
            (void)bucket->store(kVb, std::to_string(n % 50), StoreMode::Set, "v", {},
                                OpTime::now());
        }
    });
    std::map<VbUuid, Seqno> last;  // of each history
    std::thread follower([&] {
        const BucketMemoryGuard guard(bucket->memory());
        BucketProducer producer("test", *bucket, backfill, executor, 0ns, [] {});
        while (!stop) {
            const BucketProducer::Seen seen(vbucket);
            EXPECT_TRUE(producer.open({.vbid = kVb, .start = last[seen.uuid]}, seen));
            for (bool ended = false; !ended && !stop;) {
                const auto message = producer.producer().step();
                if (message && message->item) {
                    last[seen.uuid] = message->item->seqno();
                }
                ended = message && message->kind == MessageKind::StreamEnd;
            }
        }
    });
    for (int i = 0; i < 10; ++i) {
        bucket->setVBucketState(kVb, VbState::Replica, OpTime::now());
        std::this_thread::yield();
        const Seqno high = vbucket.highSeqno();
        bucket->setVBucketState(kVb, VbState::Active, OpTime::now());
        while (vbucket.highSeqno().get() < high.get() + 100) {
            std::this_thread::yield();
        }
    }
    stop = true;
    writer.join();
    follower.join();
    const auto log = vbucket.failoverLog().entries();  // the newest history first
    for (size_t n = 1; n < log.size(); ++n) {
        EXPECT_LE(last[log[n].uuid], log[n - 1].seqno) << n << " histories ago";
    }
}

/// The last seqno is that of a purged tombstone: a backfill has nothing at it.
class PurgedEnd : public BucketProducerTest {
  protected:
    PurgedEnd() {
        client_.set("k", "v");
        client_.remove("k");
        client_.wait(bucket_->config().ephemeralPurgeAgeS);
        EXPECT_EQ(bucket_->purgeTombstones(client_.now), 1U);
        EXPECT_EQ(client_.vb().highSeqno(), Seqno{2});
    }
};

TEST_F(PurgedEnd, ABackfillReachesIt) {
    EXPECT_EQ(backfill_.open(kVb, Seqno{0}, Seqno{UINT64_MAX})->high(), Seqno{2});
}

TEST_F(PurgedEnd, AStreamContinuesFromMemory) {
    open();
    EXPECT_TRUE(receive().empty());
    EXPECT_EQ(producer_.producer().findStream(kVb)->state(), StreamState::InMemory);
    client_.set("later", "v");
    const auto received = receive();
    ASSERT_EQ(received.size(), 2U);
    EXPECT_EQ(received.back().item->seqno(), Seqno{3});
}

TEST_F(PurgedEnd, AStreamUpToItEnds) {
    open({.end = Seqno{2}});
    const auto received = receive();
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received.back().kind, MessageKind::StreamEnd);
}

TEST_F(PurgedEnd, AClearedVBucketStartsOver) {
    client_.vb().clear({}, client_.now);
    EXPECT_EQ(backfill_.open(kVb, Seqno{0}, Seqno{UINT64_MAX})->high(), Seqno{0});
}

}  // namespace
}  // namespace kv::dcp
