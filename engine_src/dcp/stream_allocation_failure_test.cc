// Makes each allocation of a stream's background work fail once: the client still receives every
// document exactly once, in order.
#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/checkpoint_manager.h"
#include "dcp/active_stream.h"
#include "dcp/consumer.h"
#include "dcp/dcp_node.h"
#include "dcp/producer.h"
#include "executor/fake_executor.h"
#include "memory/failing_heap.h"

namespace kv::dcp {
namespace {

constexpr uint64_t kDocuments = 20;

ItemPtr itemOf(uint64_t seqno) {
    return Item::create(Vbid{0}, ItemOp::Mutation, std::to_string(seqno), {.seqno = Seqno{seqno}},
                        Blob::create("value"));
}

class Store final : public BackfillSource {
    struct Scan final : BackfillScan {
        explicit Scan(Seqno after) : at(after.get()) {}
        Step next(ItemPtr& item) override {
            if (at == kDocuments) {
                return Step::End;
            }
            item = itemOf(at + 1);
            ++at;
            return Step::Item;
        }
        [[nodiscard]] Seqno high() const override { return Seqno{kDocuments}; }
        [[nodiscard]] Seqno snapshotEnd() const override { return Seqno{kDocuments}; }
        [[nodiscard]] Seqno purged() const override { return {}; }
        uint64_t at;
    };

  public:
    std::unique_ptr<BackfillScan> open(Vbid, Seqno after, Seqno /*last*/) override {
        return std::make_unique<Scan>(after);
    }
    [[nodiscard]] Seqno purged(Vbid) const override { return {}; }
};

/// Returns everything that the stream sends until it ends, while the `nth` allocation of its
/// background work fails.
std::vector<uint64_t> sent(ActiveStream& stream, long nth, bool& failed) {
    std::vector<uint64_t> seqnos;
    for (int idle = 0; idle < 3;) {
        StreamNeeds needs{};
        const auto message = stream.next(needs, ListWhilePending::No);
        if (message && message->item) {
            seqnos.push_back(message->item->seqno().get());
        }
        if (message) {
            if (message->kind == MessageKind::StreamEnd) {
                break;
            }
            continue;
        }
        idle += needs == StreamNeeds::Nothing ? 1 : 0;
        allocationsLeft = failed ? -1 : nth;
        if (needs == StreamNeeds::Snapshot) {
            stream.takeSnapshot();
        } else if (needs == StreamNeeds::Backfill) {
            stream.runBackfill();
        }
        failed = failed || (nth >= 0 && allocationsLeft < 0);
        nth = std::exchange(allocationsLeft, -1);
    }
    return seqnos;
}

class StreamAllocationFailure : public testing::TestWithParam<bool> {};

TEST_P(StreamAllocationFailure, LosesAndRepeatsNothing) {
    std::vector<uint64_t> all;
    for (uint64_t seqno = 1; seqno <= kDocuments; ++seqno) {
        all.push_back(seqno);
    }
    const CheckpointConfig config{.maxItems = 8};
    bool failed = true;
    for (long nth = 0; failed; ++nth) {
        CheckpointManager checkpoints(Vbid{0}, config);
        checkpoints.persistence().registerCursor();
        const auto write = [&checkpoints] {
            for (uint64_t seqno = 1; seqno <= kDocuments; ++seqno) {
                checkpoints.queueDirty(itemOf(0), Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
            }
        };
        Store store;
        const bool fromMemory = GetParam();
        if (!fromMemory) {
            write();
        }
        ActiveStream stream({.vbid = Vbid{0}, .end = Seqno{kDocuments}, .diskOnly = !fromMemory},
                            "stream", checkpoints.cursors(), store);
        if (fromMemory) {
            write();
        }
        failed = false;
        ASSERT_EQ(sent(stream, nth, failed), all) << nth;
        ASSERT_TRUE(failed || nth >= 3) << "at least this many allocations";
    }
}
/// Streams are ended where nothing may fail: when a vBucket rolls back or is deleted, and in
/// destructors.
TEST(StreamEndAllocationFailure, SendsTheEndMessageWithoutMemory) {
    for (uint64_t documents = 0; documents < 64; ++documents) {
        const CheckpointConfig config{.maxItems = 8};
        CheckpointManager checkpoints(Vbid{0}, config);
        Store store;
        {
            ActiveStream stream({.vbid = Vbid{0}}, "stream", checkpoints.cursors(), store);
            for (uint64_t seqno = 1; seqno <= documents; ++seqno) {
                checkpoints.queueDirty(itemOf(0), Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
                if (seqno % 2 == 0) {
                    stream.takeSnapshot();
                }
            }
            allocationsLeft = 0;
            stream.end(EndStatus::Closed, false);
            allocationsLeft = -1;
            EXPECT_EQ(stream.state(), StreamState::Dead);
            StreamNeeds needs{};
            std::optional<Message> last;
            for (auto message = stream.next(needs, ListWhilePending::No); message;
                 message = stream.next(needs, ListWhilePending::No)) {
                last = std::move(message);
            }
            ASSERT_TRUE(last && last->kind == MessageKind::StreamEnd) << documents;
            EXPECT_EQ(last->detail, static_cast<uint32_t>(EndStatus::Closed));
            EXPECT_TRUE(stream.drained());
        }
        ActiveStream dropped({.vbid = Vbid{0}, .start = checkpoints.highSeqno()}, "other",
                             checkpoints.cursors(), store);
        checkpoints.queueDirty(itemOf(0), Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
        allocationsLeft = 0;  // for its destructor
    }
    allocationsLeft = -1;
}

/// A stream that waits for a slot is not forgotten if memory is too short to queue it again.
TEST(BackfillQueueAllocationFailure, KeepsWhatWaitsForASlot) {
    for (const long nth : {0, 1}) {
        const CheckpointConfig config;
        CheckpointManager checkpoints(Vbid{0}, config);
        Store store;
        ScanSlots slots(0);
        Producer producer("dcp", 1, {[] {}, [] {}, [] {}});
        producer.addStream(std::make_shared<ActiveStream>(
                StreamRequest{.vbid = Vbid{0}, .end = Seqno{kDocuments}, .diskOnly = true},
                "stream", checkpoints.cursors(), store, &slots));
        EXPECT_FALSE(producer.step());
        for (int attempt = 0; attempt < 600; ++attempt) {  // the queue allocates now and then
            runsOutOfMemory(nth, [&] { (void)producer.runBackfills(); });
            EXPECT_FALSE(producer.step());
        }
        slots.setMost(1);
        uint64_t documents = 0;
        for (int idle = 0; idle < 3; ++idle) {
            (void)producer.runBackfills();
            while (const auto message = producer.step()) {
                documents += message->item ? 1U : 0U;
            }
        }
        EXPECT_EQ(documents, kDocuments) << nth;
    }
}

/// Messages that a consumer held back are applied once, in order, and all of them acknowledged,
/// whichever allocation fails.
TEST(ConsumerAllocationFailure, LosesNothingThatItHeldBack) {
    constexpr uint32_t kOpaque = 5;
    constexpr Vbid kVb{0};
    const OpTime now = OpTime::now();
    bool failed = true;
    for (long nth = 0; failed; ++nth) {
        BucketConfig config;
        config.vbuckets = 1;
        const auto bucket = Bucket::createEphemeral(config);
        bucket->setVBucketState(kVb, VbState::Replica, now);
        VBucket& vbucket = bucket->vbucket(kVb);
        const auto reader = vbucket.checkpoints().cursors().registerCursor("reader", Seqno{});
        Consumer consumer(*bucket);
        consumer.addStream(kVb, kOpaque);
        size_t bytes = 0;
        size_t applied = 0;
        const auto hold = [&](Message message) {
            bytes += message.wireSize();
            consumer.findStream(kVb)->receive(std::move(message), true, now, applied);
        };
        hold(Message::marker(kVb, kOpaque, Seqno{1}, Seqno{3}, kMarkerMemory));
        for (uint64_t seqno = 1; seqno <= 3; ++seqno) {
            hold(Message::document(
                    kOpaque, Item::create(kVb, ItemOp::Mutation, std::to_string(seqno),
                                          {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                          Blob::create("value"))));
        }
        ASSERT_EQ(applied, 0U);
        failed = runsOutOfMemory(nth, [&] { consumer.processBuffered(now); });
        while (consumer.processBuffered(now)) {
        }
        EXPECT_TRUE(consumer.hasStream(kVb)) << nth;
        EXPECT_EQ(vbucket.highSeqno(), Seqno{3}) << nth;
        EXPECT_EQ(vbucket.hashTable().entries(), 3U) << nth;
        EXPECT_EQ(vbucket.checkpoints().currentSnapshot(), (SnapshotRange{Seqno{1}, Seqno{3}}));
        EXPECT_EQ(consumer.takeAcknowledgement(1), bytes) << nth;
        ASSERT_TRUE(failed || nth >= 7) << "at least this many allocations";
    }
}

/// A message is either applied or not, whichever allocation fails; a stream from the vBucket's
/// position after that brings the rest.
TEST(ConsumerAllocationFailure, AppliesAMessageOrNot) {
    constexpr Vbid kVb{0};
    const OpTime now = OpTime::now();
    bool failed = true;
    for (long nth = 0; failed; ++nth) {
        BucketConfig config;
        config.vbuckets = 1;
        const auto bucket = Bucket::createEphemeral(config);
        bucket->setVBucketState(kVb, VbState::Replica, now);
        VBucket& vbucket = bucket->vbucket(kVb);
        Consumer consumer(*bucket);
        const auto receive = [&](uint32_t opaque, uint64_t seqno) {
            (void)consumer.receive(
                    Message::document(
                            opaque,
                            Item::create(kVb, ItemOp::Mutation, std::to_string(seqno),
                                         {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                         Blob::create("value"))),
                    now);
        };
        consumer.addStream(kVb, 1);
        (void)consumer.receive(Message::marker(kVb, 1, Seqno{1}, Seqno{2}, kMarkerMemory), now);
        failed = runsOutOfMemory(nth, [&] { receive(1, 1); });
        const uint64_t high = vbucket.highSeqno().get();
        EXPECT_EQ(vbucket.hashTable().entries(), high) << nth;
        EXPECT_TRUE(failed || high == 1) << nth;
        if (failed) {  // the connection is lost
            consumer.closeStream(kVb);
            consumer.addStream(kVb, 2);
            (void)consumer.receive(
                    Message::marker(kVb, 2, Seqno{high + 1}, Seqno{2}, kMarkerMemory), now);
        }
        for (uint64_t seqno = high + 1; seqno <= 2; ++seqno) {
            receive(failed ? 2 : 1, seqno);
        }
        EXPECT_EQ(vbucket.highSeqno(), Seqno{2}) << nth;
        EXPECT_EQ(vbucket.hashTable().entries(), 2U) << nth;
        ASSERT_TRUE(failed || nth >= 4) << "at least this many allocations";
    }
}

/// After a change of state, no stream of the earlier state remains.
TEST(EndStreamsAllocationFailure, EndsThemWithoutMemory) {
    BucketConfig config;
    config.vbuckets = 1;
    const auto bucket = Bucket::createEphemeral(config);
    bucket->setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
    FakeExecutor executor;
    DcpNode node(*bucket, executor, std::chrono::milliseconds(1));
    std::vector<std::shared_ptr<BucketProducer>> producers;
    for (const char* name : {"one", "two", "three"}) {
        producers.push_back(node.makeProducer(name, {}, [] {}));
        ASSERT_TRUE(producers.back()->open({.vbid = Vbid{0}},
                                           BucketProducer::Seen(bucket->vbucket(Vbid{0}))));
    }
    producers[1].reset();
    allocationsLeft = 0;
    EXPECT_NO_THROW(bucket->setVBucketState(Vbid{0}, VbState::Replica, OpTime::now()));
    allocationsLeft = -1;
    for (const size_t left : {size_t{0}, size_t{2}}) {
        EXPECT_EQ(producers[left]->producer().findStream(Vbid{0})->state(), StreamState::Dead);
    }
}

INSTANTIATE_TEST_SUITE_P(Sources, StreamAllocationFailure, testing::Bool());

}  // namespace
}  // namespace kv::dcp
