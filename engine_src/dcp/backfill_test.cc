// Where a stream reads from, and how far it reads ahead of what it has sent, in every design of the
// producer.
#include <gtest/gtest.h>

#include "dcp/producer_test_support.h"

namespace kv::dcp {
namespace {

using namespace testing_support;

template <class P>
class BackfillTest : public testing::Test {};
TYPED_TEST_SUITE(BackfillTest, AllProducers);

TYPED_TEST(BackfillTest, BackfillsItemsThatLeftMemoryAndHandsOver) {
    Node<TypeParam> node;
    node.config.maxItems = 5;
    const Vbid vb{1};
    for (int i = 0; i < 23; ++i) {
        node.write(vb, "old" + std::to_string(i % 15));
        node.persist(vb);
    }
    const auto stream = node.stream(vb);
    for (int i = 0; i < 7; ++i) {
        node.write(vb, "new" + std::to_string(i));
    }
    const auto got = documents(node.drain(), vb);
    EXPECT_EQ(got.size(), 15u + 7);
    EXPECT_EQ(got.back().first, 30u);
    EXPECT_GT(stream->stats().backfilled, 0u);
    EXPECT_GE(stream->stats().fromMemory, 7u);
}

TYPED_TEST(BackfillTest, ADroppedCursorContinuesByBackfillWithoutLossOrRepetition) {
    Node<TypeParam> node;
    node.config.maxItems = 4;
    const Vbid vb{2};
    const auto stream = node.stream(vb);
    node.drain();
    for (int i = 0; i < 20; ++i) {
        node.write(vb, "k" + std::to_string(i));
        node.persist(vb);
    }
    const auto dropped = node.dropCursor(vb);
    EXPECT_FALSE(node.producer.dropCursor(vb, dropped)) << "it is dropped once";
    node.persist(vb);
    node.write(vb, "last");
    const auto got = documents(node.drain(), vb);
    EXPECT_EQ(got.size(), 21u);
    EXPECT_EQ(got.back().second, "last");
    EXPECT_EQ(stream->stats().cursorDrops, 1u);
}

TYPED_TEST(BackfillTest, ReadsOnlyALittleAhead) {
    Node<TypeParam> node;
    const Vbid vb{3};
    constexpr size_t kValue = 256 << 10;
    constexpr int kItems = 200;
    const BlobPtr value = Blob::create(std::string(kValue, 'x'));
    const auto stream = node.stream(vb);
    for (int i = 0; i < kItems; ++i) {
        node.managers[vb.get()]->queueDirty(
                Item::create(vb, ItemOp::Mutation, "k" + std::to_string(i), ItemMeta{}, value),
                Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
        node.producer.onSeqno(vb);
    }
    size_t most = 0;
    std::vector<Message> got;
    bool moved = true;
    while (moved) {
        moved = false;
        while (auto message = node.producer.step()) {
            most = std::max(most, stream->stats().readyBytes);
            got.push_back(std::move(*message));
            moved = true;
        }
        moved = moved || node.snapshotWakes.exchange(0) != 0;
        node.producer.runSnapshots();
    }
    EXPECT_EQ(documents(got, vb).size(), static_cast<size_t>(kItems));
    EXPECT_LE(most, ActiveStream::kReadBytes + 2 * kValue);
}

/// From the store, or from memory: items stay in a log as long as they are not persisted.
template <class P>
void streamsShareABudget(bool fromMemory) {
    Node<P> node;
    constexpr size_t kValue = 1000;
    constexpr int kItems = 100;
    constexpr size_t kBudget = 64 << 10;
    node.config.maxItems = fromMemory ? kItems : 4;
    const BlobPtr value = Blob::create(std::string(kValue, 'x'));
    std::vector<std::shared_ptr<ActiveStream>> streams;
    node.store.budget = kBudget;
    for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
        for (int i = 0; i < kItems; ++i) {
            node.managers[vb]->queueDirty(Item::create(Vbid{vb}, ItemOp::Mutation,
                                                       "k" + std::to_string(i), ItemMeta{}, value),
                                          Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
        }
        if (!fromMemory) {
            node.persist(Vbid{vb});
        }
        streams.push_back(node.stream(Vbid{vb}));
    }
    const auto readOn = [](ActiveStream& stream) {
        stream.runBackfill();
        stream.takeSnapshot();
    };
    size_t held = 0;
    for (const auto& stream : streams) {
        readOn(*stream);  // nothing of it is sent
        held += stream->stats().readyBytes;
        EXPECT_GT(stream->stats().readyItems, 1U) << "each has something to send";
        EXPECT_EQ(stream->stats().fromMemory != 0, fromMemory);
    }
    EXPECT_GT(held, kBudget) << "it was spent";
    EXPECT_LE(held, kBudget + kItems * kValue + kVbuckets * (ActiveStream::kReadLeast + 2 * kValue))
            << "the last one that found room read all that it had";
    // The earlier streams keep their items.
    size_t sent = 0;
    for (StreamNeeds needs = StreamNeeds::Backfill;
         sent < kItems && needs != StreamNeeds::Nothing;) {
        if (const auto message = streams.back()->next(needs, ListWhilePending::No)) {
            sent += message->item ? 1U : 0U;
            needs = StreamNeeds::Backfill;
        } else if (needs != StreamNeeds::Nothing) {
            readOn(*streams.back());
        }
    }
    EXPECT_EQ(sent, kItems);
    for (uint16_t vb = 0; vb + 1 < kVbuckets; ++vb) {
        streams[vb]->end(EndStatus::Rollback, false);
    }
    EXPECT_EQ(node.store.unsent().held(), 0U) << "all of it was sent, or given up";
}

TYPED_TEST(BackfillTest, BackfillsShareABudgetWithoutWaitingForEachOther) {
    streamsShareABudget<TypeParam>(false);
}

TYPED_TEST(BackfillTest, ItemsReadFromMemoryCountTowardsTheSameBudget) {
    streamsShareABudget<TypeParam>(true);
}

TYPED_TEST(BackfillTest, AFailedBackfillEndsTheStreamWithAnError) {
    Node<TypeParam> node;
    node.config.maxItems = 2;
    const Vbid vb{4};
    for (int i = 0; i < 9; ++i) {
        node.write(vb, "k" + std::to_string(i));
        node.persist(vb);
    }
    node.store.fails = true;
    node.stream(vb);
    const auto got = node.drain();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].detail, static_cast<uint32_t>(EndStatus::BackfillFailed));
}

}  // namespace
}  // namespace kv::dcp
