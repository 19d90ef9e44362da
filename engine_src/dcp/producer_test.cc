#include "dcp/producer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "checkpoint/checkpoint_manager.h"

namespace kv::dcp {
namespace {

/// A store that remembers the latest version of every key, as a by-seqno index does.
class MemoryStore final : public BackfillSource {
    struct Scan final : BackfillScan {
        Step next(ItemPtr& item) override {
            if (position == items.size()) {
                return Step::End;
            }
            item = items[position++];
            return Step::Item;
        }
        [[nodiscard]] Seqno high() const override { return highSeqno; }
        [[nodiscard]] Seqno snapshotEnd() const override { return highSeqno; }
        [[nodiscard]] Seqno purged() const override { return purgedSeqno; }
        std::vector<ItemPtr> items;
        size_t position{0};
        Seqno highSeqno{};
        Seqno purgedSeqno{};
    };

  public:
    void put(const ItemPtr& item) {
        const std::scoped_lock lock(mutex_);
        Documents& documents = stored_[item->vbid()];
        auto& seqno = documents.byKey[std::string(item->key())];
        documents.bySeqno.erase(seqno);
        seqno = item->seqno().get();
        documents.bySeqno[seqno] = item;
        documents.high = item->seqno();
    }
    std::unique_ptr<BackfillScan> open(Vbid vbid, Seqno after) override {
        const std::scoped_lock lock(mutex_);
        if (fails) {
            return nullptr;
        }
        const Documents& documents = stored_[vbid];
        auto scan = std::make_unique<Scan>();
        scan->highSeqno = documents.high;
        scan->purgedSeqno = purgedSeqno;
        for (auto it = documents.bySeqno.upper_bound(after.get()); it != documents.bySeqno.end();
             ++it) {
            scan->items.push_back(it->second);
        }
        return scan;
    }
    [[nodiscard]] Seqno purged(Vbid) const override { return purgedSeqno; }
    [[nodiscard]] size_t mostUnsent() const override { return budget; }
    size_t budget{SIZE_MAX};
    bool fails{false};
    Seqno purgedSeqno{};

  private:
    struct Documents {
        std::map<std::string, uint64_t> byKey;
        std::map<uint64_t, ItemPtr> bySeqno;
        Seqno high{};
    };
    std::mutex mutex_;
    std::map<Vbid, Documents> stored_;
};

constexpr uint16_t kVbuckets = 8;

/// Checkpoints, store and producer of one node, driven by hand or by threads.
template <class P>
class Node {
  public:
    Node()
        : producer("dcp", kVbuckets,
                   ProducerHooks{[this] { wake(); }, [this] { ++snapshotWakes; },
                                 [this] { ++backfillWakes; }}) {
        for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
            managers.push_back(std::make_unique<CheckpointManager>(Vbid{vb}, config));
            managers.back()->persistence().registerCursor();
        }
    }

    /// Stores a document and tells the producer, as the bucket does. Persists every so often, as
    /// the flusher does.
    Seqno write(Vbid vbid, const std::string& key, ItemOp op = ItemOp::Mutation) {
        const auto item = Item::create(vbid, op, key, ItemMeta{},
                                       op == ItemOp::Mutation ? Blob::create("v") : BlobPtr{});
        auto& previous = latest[{vbid.get(), key}];
        const auto queued = managers[vbid.get()]->queueDirty(item, previous, GenerateSeqno::Yes,
                                                             GenerateCas::Yes, 1);
        previous = queued.seqno;
        producer.onSeqno(vbid);
        return queued.seqno;
    }

    /// As a replica does: the seqno is the source's.
    void receive(Vbid vbid, uint64_t seqno) {
        managers[vbid.get()]->queueDirty(
                Item::create(vbid, ItemOp::Mutation, "k" + std::to_string(seqno),
                             {.cas = Cas{seqno}, .seqno = Seqno{seqno}}, {}),
                Seqno{}, GenerateSeqno::No, GenerateCas::No, 1);
        producer.onSeqno(vbid);
    }

    void persist(Vbid vbid) {
        auto& manager = *managers[vbid.get()];
        const auto taken = manager.persistence().takeItemsToPersist(1'000'000);
        for (const auto& item : taken.items) {
            if (!item->isMeta()) {
                store.put(item);
            }
        }
        manager.persistence().persisted();
        const auto freed = manager.removal().extractClosedUnrefCheckpoints();
    }

    std::shared_ptr<ActiveStream> stream(Vbid vbid, Seqno start = {}, Seqno end = Seqno{UINT64_MAX},
                                         bool diskOnly = false,
                                         std::optional<SnapshotRange> snapshot = {},
                                         MessageFormat format = {}) {
        auto made = std::make_shared<ActiveStream>(
                StreamRequest{vbid, 100u + vbid.get(), start, end, diskOnly, format, snapshot},
                "dcp:" + std::to_string(vbid.get()), managers[vbid.get()]->cursors(), store);
        EXPECT_TRUE(producer.addStream(made));
        return made;
    }

    /// Runs tasks and steps until nothing moves.
    std::vector<Message> drain() {
        std::vector<Message> got;
        bool moved = true;
        while (moved) {
            moved = false;
            while (auto message = producer.step()) {
                got.push_back(std::move(*message));
                moved = true;
            }
            while (snapshotWakes.exchange(0) != 0) {
                while (producer.runSnapshots()) {
                }
                moved = true;
            }
            while (backfillWakes.exchange(0) != 0) {
                while (producer.runBackfills()) {
                }
                moved = true;
            }
        }
        return got;
    }

    void wake() {
        const std::scoped_lock lock(wakeMutex);
        woken = true;
        wakeCondition.notify_one();
    }
    /// False when no wake-up came in time: it was lost.
    bool waitForWake(std::chrono::seconds limit) {
        std::unique_lock lock(wakeMutex);
        const bool came = wakeCondition.wait_for(lock, limit, [this] { return woken; });
        woken = false;
        return came;
    }

    CheckpointConfig config{};
    std::vector<std::unique_ptr<CheckpointManager>> managers;
    MemoryStore store;
    std::map<std::pair<uint16_t, std::string>, Seqno> latest;
    std::atomic<int> snapshotWakes{0};
    std::atomic<int> backfillWakes{0};
    std::mutex wakeMutex;
    std::condition_variable wakeCondition;
    bool woken{false};
    P producer;
};

/// The markers among messages: from where the client is consistent, and where it will be again.
using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
Ranges markers(const std::vector<Message>& messages) {
    Ranges found;
    for (const auto& message : messages) {
        if (message.kind == MessageKind::SnapshotMarker) {
            found.emplace_back(message.start.get(), message.end.get());
        }
    }
    return found;
}

/// The documents among messages, and checks that every one lies inside the marker before it, keys
/// unique in it.
std::vector<std::pair<uint64_t, std::string>> documents(const std::vector<Message>& messages,
                                                        Vbid vbid) {
    std::vector<std::pair<uint64_t, std::string>> found;
    Seqno start{};
    Seqno end{};
    Seqno last{};
    bool marked = false;
    std::set<std::string> keys;
    for (const auto& message : messages) {
        if (message.vbid != vbid) {
            continue;
        }
        if (message.kind == MessageKind::SnapshotMarker) {
            if (std::exchange(marked, true)) {
                EXPECT_EQ(message.start, last == end ? end : start)
                        << "consistent is who has all of the last snapshot";
            }
            start = message.start;
            end = message.end;
            keys.clear();
        } else if (message.item) {
            const std::string key(message.item->key());
            last = message.item->seqno();
            EXPECT_LT(start, last);
            EXPECT_LE(last, end);
            EXPECT_TRUE(keys.insert(key).second) << key << " twice in one snapshot";
            if (!found.empty()) {
                EXPECT_GT(message.item->seqno().get(), found.back().first);
            }
            found.emplace_back(message.item->seqno().get(), key);
        }
    }
    return found;
}

template <class Ready, class Queue, size_t Yield>
using Make = BasicProducer<Ready, Queue, options::SnapshotYield<Yield>>;
using AllProducers =
        testing::Types<Make<options::OneLockReady, options::DuplicatesSnapshotQueue, 10>,
                       Make<options::RoundRobinReady, options::DuplicatesSnapshotQueue, 10>,
                       Make<options::RoundRobinReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::QueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::QueueReady, options::DuplicatesSnapshotQueue, 10>,
                       Make<options::SetQueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::HashQueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::ListQueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::LockFreeReady, options::UniqueSnapshotQueue, 256>>;
template <class P>
class ProducerTest : public testing::Test {};
TYPED_TEST_SUITE(ProducerTest, AllProducers);

TYPED_TEST(ProducerTest, SendsAStreamInOrderAndEndsIt) {
    Node<TypeParam> node;
    const Vbid vb{3};
    node.stream(vb, Seqno{0}, Seqno{3});
    for (const char* key : {"a", "b", "c", "d"}) {
        node.write(vb, key);
    }
    const auto got = node.drain();
    const std::vector<std::pair<uint64_t, std::string>> expected{{1, "a"}, {2, "b"}, {3, "c"}};
    EXPECT_EQ(documents(got, vb), expected);
    ASSERT_EQ(got.back().kind, MessageKind::StreamEnd);
    EXPECT_EQ(got.back().opaque, 103u);
    EXPECT_EQ(node.producer.findStream(vb), nullptr);
    EXPECT_TRUE(node.producer.paused());
}

TYPED_TEST(ProducerTest, SendsDeletionsAndGoesOnWhenMoreIsWritten) {
    Node<TypeParam> node;
    const Vbid vb{0};
    node.write(vb, "a");
    node.stream(vb);
    EXPECT_EQ(documents(node.drain(), vb).size(), 1u);
    node.write(vb, "a", ItemOp::Deletion);
    const auto got = node.drain();
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[1].kind, MessageKind::Deletion);
    EXPECT_EQ(got[1].wireSize(), 24u + 18 + 1);
}

TYPED_TEST(ProducerTest, BackfillsWhatMemoryNoLongerHoldsAndHandsOver) {
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

TYPED_TEST(ProducerTest, ADroppedCursorGoesOnByBackfillWithoutLossOrRepetition) {
    Node<TypeParam> node;
    node.config.maxItems = 4;
    const Vbid vb{2};
    const auto stream = node.stream(vb);
    node.drain();
    for (int i = 0; i < 20; ++i) {
        node.write(vb, "k" + std::to_string(i));
        node.persist(vb);
    }
    const auto victims = node.managers[vb.get()]->removal().getListOfCursorsToDrop();
    ASSERT_EQ(victims.size(), 1u);
    EXPECT_TRUE(node.producer.dropCursor(vb, victims[0]));
    EXPECT_FALSE(node.producer.dropCursor(vb, victims[0])) << "it is dropped once";
    node.persist(vb);
    node.write(vb, "last");
    const auto got = documents(node.drain(), vb);
    EXPECT_EQ(got.size(), 21u);
    EXPECT_EQ(got.back().second, "last");
    EXPECT_EQ(stream->stats().cursorDrops, 1u);
}

TYPED_TEST(ProducerTest, AMarkerBeginsWhereTheClientIsConsistent) {
    Node<TypeParam> node;
    const Vbid vb{1};
    node.write(vb, "a");
    node.stream(vb);
    node.write(vb, "b");
    node.write(vb, "a");
    EXPECT_EQ(markers(node.drain()), (Ranges{{0, 3}})) << "1 was replaced by 3: 2 is no beginning";
    node.write(vb, "c");
    node.write(vb, "c");
    EXPECT_EQ(markers(node.drain()), (Ranges{{3, 5}}));
}

TYPED_TEST(ProducerTest, AMarkerOfABackfillAndOfWhatFollowsBeginWhereTheClientIsConsistent) {
    Node<TypeParam> node;
    node.config.maxItems = 2;
    const Vbid vb{1};
    for (const char* key : {"a", "b", "a", "c", "b", "a"}) {
        node.write(vb, key);
        node.persist(vb);
    }
    node.stream(vb, Seqno{1});
    auto got = node.drain();
    EXPECT_EQ(markers(got), (Ranges{{1, 6}}));
    node.write(vb, "d");
    node.write(vb, "d");
    got = node.drain();
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(got[0].start, Seqno{6});
}

TYPED_TEST(ProducerTest, AClientThatHasASnapshotInPartIsConsistentBeforeItUntilItIsComplete) {
    Node<TypeParam> node;
    node.config.maxItems = 3;
    const Vbid vb{1};
    for (int i = 0; i < 9; ++i) {
        node.write(vb, "k" + std::to_string(i));
    }
    // Of 3..8 it has up to 4: memory has 4..6 and 7..9, and only behind 8 is it whole again.
    node.stream(vb, Seqno{4}, Seqno{UINT64_MAX}, false, SnapshotRange{Seqno{2}, Seqno{8}});
    auto got = node.drain();
    EXPECT_EQ(markers(got), (Ranges{{2, 8}, {2, 9}}));
    EXPECT_EQ(documents(got, vb).size(), 5U);
    node.write(vb, "k");
    EXPECT_EQ(markers(node.drain()), (Ranges{{9, 10}}));

    // The same from disk, which has less than the snapshot promised.
    const Vbid other{2};
    for (int i = 0; i < 5; ++i) {
        node.write(other, "k" + std::to_string(i));
        node.persist(other);
    }
    for (int i = 5; i < 9; ++i) {
        node.write(other, "k" + std::to_string(i));
    }
    node.stream(other, Seqno{2}, Seqno{UINT64_MAX}, false, SnapshotRange{Seqno{1}, Seqno{7}});
    got = node.drain();
    const auto ranges = markers(got);
    ASSERT_GE(ranges.size(), 2U);
    EXPECT_EQ(ranges[0], std::pair(uint64_t{1}, uint64_t{7}));
    EXPECT_EQ(ranges[1].first, 1U) << "7 has not been sent when this snapshot begins";
    EXPECT_EQ(documents(got, other).size(), 7U);
}

TYPED_TEST(ProducerTest, AStreamThatGoesBackToDiskInMidSnapshotSaysSo) {
    Node<TypeParam> node;
    node.config.maxItems = 100;
    const Vbid vb{2};
    auto& manager = *node.managers[vb.get()];
    const auto stream = node.stream(vb);
    manager.createSnapshot({Seqno{1}, Seqno{4}}, CheckpointType::Memory, false, 1);
    node.receive(vb, 1);
    node.receive(vb, 3);
    EXPECT_EQ(markers(node.drain()), (Ranges{{0, 4}}));
    node.receive(vb, 4);
    manager.createSnapshot({Seqno{5}, Seqno{6}}, CheckpointType::Memory, false, 1);
    node.receive(vb, 6);
    node.persist(vb);
    const auto victims = manager.removal().getListOfCursorsToDrop();
    ASSERT_EQ(victims.size(), 1U);
    ASSERT_TRUE(node.producer.dropCursor(vb, victims[0]));
    node.persist(vb);
    EXPECT_EQ(markers(node.drain()), (Ranges{{0, 6}})) << "3 is in the middle of a snapshot";
}

TYPED_TEST(ProducerTest, AStreamThatMissedAPurgedDeletionRollsBack) {
    Node<TypeParam> node;
    node.config.maxItems = 4;
    const Vbid vb{2};
    node.stream(vb);
    node.write(vb, "k");
    node.drain();
    for (int i = 0; i < 20; ++i) {
        node.write(vb, "k" + std::to_string(i));
        node.persist(vb);
    }
    const auto victims = node.managers[vb.get()]->removal().getListOfCursorsToDrop();
    ASSERT_EQ(victims.size(), 1u);
    ASSERT_TRUE(node.producer.dropCursor(vb, victims[0]));
    node.persist(vb);
    node.store.purgedSeqno = Seqno{5};
    const auto got = node.drain();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].kind, MessageKind::StreamEnd);
    EXPECT_EQ(got[0].detail, static_cast<uint32_t>(EndStatus::Rollback));
}

TYPED_TEST(ProducerTest, AMarkerSaysWhatIsPurgedToWhomAsksForIt) {
    for (const bool asked : {false, true}) {
        Node<TypeParam> node;
        const Vbid vb{2};
        for (int i = 0; i < 8; ++i) {
            node.write(vb, "k" + std::to_string(i));
        }
        node.persist(vb);
        node.store.purgedSeqno = Seqno{5};
        node.stream(vb, {}, Seqno{UINT64_MAX}, false, {}, {.purges = asked});
        node.drain();
        // From memory, too: it may be a copy's, which was told of it.
        node.store.purgedSeqno = Seqno{6};
        node.write(vb, "later");
        const auto got = node.drain();
        ASSERT_EQ(got.size(), 2U);
        ASSERT_EQ(got[0].kind, MessageKind::SnapshotMarker);
        EXPECT_EQ(got[0].purged, asked ? Seqno{6} : Seqno{});
        EXPECT_EQ(got[0].wireSize(), asked ? 24U + 53U : 24U + 20U);
    }
}

TYPED_TEST(ProducerTest, ReadsNoMoreThanItMaySendSoon) {
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

/// From the store, or from memory: what is in a log stays there as long as it is not persisted.
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
    // Those before keep what they have.
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

TYPED_TEST(ProducerTest, BackfillsShareABudgetAndNobodyWaitsForAnother) {
    streamsShareABudget<TypeParam>(false);
}

TYPED_TEST(ProducerTest, WhatIsReadFromMemoryCountsToTheSameBudget) {
    streamsShareABudget<TypeParam>(true);
}

TYPED_TEST(ProducerTest, AFailedBackfillEndsTheStreamAndSaysSo) {
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

TYPED_TEST(ProducerTest, StopsWhenTheBufferIsFullAndGoesOnAfterAnAcknowledgement) {
    Node<TypeParam> node;
    const Vbid vb{5};
    node.producer.flow().setBufferSize(100);
    for (int i = 0; i < 10; ++i) {
        node.write(vb, "k" + std::to_string(i));
    }
    node.stream(vb);
    size_t total = 0;
    for (int round = 0; round < 100 && total < 11; ++round) {
        const auto got = node.drain();
        size_t bytes = 0;
        for (const auto& message : got) {
            bytes += message.wireSize();
        }
        EXPECT_LE(bytes, 100u + 24 + 31 + 3) << "at most one message too far";
        total += got.size();
        EXPECT_TRUE(node.producer.paused());
        node.woken = false;
        node.producer.acknowledged(bytes);
        EXPECT_TRUE(total == 11 || node.woken) << "room in a full buffer wakes the connection";
    }
    EXPECT_EQ(total, 11u);
}

TYPED_TEST(ProducerTest, AReplicaDoesNotCallASnapshotCompleteThatItHasInPart) {
    Node<TypeParam> node;
    const Vbid vb{7};
    auto& manager = *node.managers[vb.get()];
    node.stream(vb);
    manager.createSnapshot({Seqno{1}, Seqno{9}}, CheckpointType::Memory, false, 1);
    node.receive(vb, 2);
    node.receive(vb, 4);
    auto got = node.drain();
    ASSERT_EQ(got.size(), 3u);
    EXPECT_EQ(got[0].end, Seqno{9});
    node.receive(vb, 9);
    got = node.drain();
    ASSERT_EQ(got.size(), 1u) << "the rest belongs to the snapshot that was announced";
    EXPECT_EQ(got[0].item->seqno(), Seqno{9});
    manager.createSnapshot({Seqno{10}, Seqno{12}}, CheckpointType::Memory, false, 1);
    node.receive(vb, 12);
    got = node.drain();
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].end, Seqno{12});
}

TYPED_TEST(ProducerTest, AStreamOfAVBucketThatRolledBackSaysOnlyThat) {
    Node<TypeParam> node;
    const Vbid vb{6};
    node.write(vb, "a");
    node.stream(vb);
    while (!node.producer.step()) {  // the marker; the document waits
        node.producer.runSnapshots();
    }
    EXPECT_TRUE(node.producer.endStream(vb, EndStatus::Rollback));
    const auto got = node.drain();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].kind, MessageKind::StreamEnd);
    EXPECT_EQ(got[0].detail, static_cast<uint32_t>(EndStatus::Rollback));
}

TYPED_TEST(ProducerTest, EndsAStreamOnRequest) {
    Node<TypeParam> node;
    const Vbid vb{6};
    node.stream(vb);
    node.drain();
    EXPECT_TRUE(node.producer.endStream(vb, EndStatus::StateChanged));
    const auto got = node.drain();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].detail, static_cast<uint32_t>(EndStatus::StateChanged));
    EXPECT_FALSE(node.producer.endStream(vb, EndStatus::Closed));
}

/// Writers, the tasks and a client that sleeps until it is woken: everything arrives, or a wake-up
/// was lost.
TYPED_TEST(ProducerTest, LosesNoWakeUpUnderLoad) {
    constexpr uint64_t kWrites = 4'000;
    Node<TypeParam> node;
    node.producer.flow().setBufferSize(1024);
    for (uint16_t vb = 0; vb < 4; ++vb) {
        node.stream(Vbid{vb});
    }
    std::atomic<bool> stop{false};
    std::thread tasks([&] {
        while (!stop) {
            if (node.snapshotWakes.exchange(0) != 0) {
                while (node.producer.runSnapshots()) {
                }
            }
            if (node.backfillWakes.exchange(0) != 0) {
                while (node.producer.runBackfills()) {
                }
            }
            std::this_thread::yield();
        }
    });
    std::vector<std::thread> writers;
    for (uint16_t t = 0; t < 2; ++t) {
        writers.emplace_back([&, t] {
            std::mt19937 random(t);
            for (uint64_t i = 0; i < kWrites; ++i) {
                // Every write is a new key, so nothing is de-duplicated; each writer has two
                // vBuckets of its own.
                const Vbid vbid{static_cast<uint16_t>(t * 2 + random() % 2)};
                const auto item = Item::create(vbid, ItemOp::Mutation, std::to_string(i),
                                               ItemMeta{}, Blob::create("v"));
                node.managers[vbid.get()]->queueDirty(item, Seqno{}, GenerateSeqno::Yes,
                                                      GenerateCas::Yes, 1);
                node.producer.onSeqno(vbid);
            }
        });
    }
    std::map<uint16_t, uint64_t> last;
    uint64_t received = 0;
    bool lost = false;
    while (received < 2 * kWrites && !lost) {
        auto message = node.producer.step();
        if (!message) {
            lost = !node.waitForWake(std::chrono::seconds(30));
            continue;
        }
        if (message->item) {
            ++received;
            EXPECT_EQ(message->item->seqno().get(), ++last[message->vbid.get()])
                    << "a gap or a repetition";
        }
        node.producer.acknowledged(message->wireSize());
    }
    for (auto& writer : writers) {
        writer.join();
    }
    stop = true;
    tasks.join();
    EXPECT_EQ(received, 2 * kWrites);
}

/// What one design sends for a sequence of random writes, persists, reads and cursor drops: the
/// documents of each vBucket, in order, markers left out (where a snapshot ends depends on when the
/// client asks).
template <class P>
std::map<uint16_t, std::vector<std::tuple<uint64_t, std::string, MessageKind>>> sentFor(
        unsigned seed) {
    Node<P> node;
    node.config.maxItems = 3;
    std::mt19937 random(seed);
    constexpr uint16_t kStreams = 3;
    std::vector<Message> all;
    const auto drain = [&] {
        auto got = node.drain();
        std::move(got.begin(), got.end(), std::back_inserter(all));
    };
    for (uint16_t vb = 0; vb < kStreams; ++vb) {
        node.stream(Vbid{vb});
    }
    const auto operations = 5 + random() % 40;
    for (unsigned i = 0; i < operations; ++i) {
        const Vbid vbid{static_cast<uint16_t>(random() % kStreams)};
        const auto key = std::to_string(random() % 6);
        switch (random() % 8) {
            case 0:
                drain();
                break;
            case 1:
                node.persist(vbid);
                break;
            case 2: {
                const auto victims = node.managers[vbid.get()]->removal().getListOfCursorsToDrop();
                for (const auto& victim : victims) {
                    EXPECT_TRUE(node.producer.dropCursor(vbid, victim));
                }
                break;
            }
            case 3:
                node.write(vbid, key, ItemOp::Deletion);
                break;
            default:
                node.write(vbid, key);
                break;
        }
    }
    for (uint16_t vb = 0; vb < kStreams; ++vb) {
        node.persist(Vbid{vb});
    }
    drain();
    std::map<uint16_t, std::vector<std::tuple<uint64_t, std::string, MessageKind>>> sent;
    for (uint16_t vb = 0; vb < kStreams; ++vb) {
        documents(all, Vbid{vb});  // checks order, markers and uniqueness
        const auto high = node.managers[vb]->highSeqno();
        for (const auto& message : all) {
            if (message.vbid == Vbid{vb} && message.item) {
                sent[vb].emplace_back(message.item->seqno().get(), message.item->key(),
                                      message.kind);
            }
        }
        EXPECT_EQ(sent[vb].empty() ? 0 : std::get<0>(sent[vb].back()), high.get()) << "all of it";
    }
    return sent;
}

/// The same operations through every design: the same documents in the same order for every
/// vBucket.
TEST(ProducerEquivalence, EveryDesignSendsTheSame) {
    using OneLock = Make<options::OneLockReady, options::DuplicatesSnapshotQueue, 10>;
    using RoundRobin = Make<options::RoundRobinReady, options::UniqueSnapshotQueue, 1>;
    using Duplicates = Make<options::QueueReady, options::DuplicatesSnapshotQueue, 10>;
    using Queue = Make<options::QueueReady, options::UniqueSnapshotQueue, 256>;
    using Set = Make<options::SetQueueReady, options::UniqueSnapshotQueue, 256>;
    using Hash = Make<options::HashQueueReady, options::UniqueSnapshotQueue, 256>;
    using List = Make<options::ListQueueReady, options::UniqueSnapshotQueue, 256>;
    using LockFree = Make<options::LockFreeReady, options::UniqueSnapshotQueue, 256>;
    for (unsigned seed = 0; seed < 3'000; ++seed) {
        const auto expected = sentFor<Queue>(seed);
        ASSERT_EQ(sentFor<OneLock>(seed), expected) << "onelock, seed " << seed;
        ASSERT_EQ(sentFor<RoundRobin>(seed), expected) << "roundrobin, seed " << seed;
        ASSERT_EQ(sentFor<Duplicates>(seed), expected) << "duplicates, seed " << seed;
        ASSERT_EQ(sentFor<Set>(seed), expected) << "readyqueue-set, seed " << seed;
        ASSERT_EQ(sentFor<Hash>(seed), expected) << "readyqueue-hash, seed " << seed;
        ASSERT_EQ(sentFor<List>(seed), expected) << "readyqueue-list, seed " << seed;
        ASSERT_EQ(sentFor<LockFree>(seed), expected) << "lockfree, seed " << seed;
    }
}

TEST(FlowControl, TellsWhenAFullBufferGetsRoom) {
    FlowControl flow;
    flow.sent(1000);
    EXPECT_FALSE(flow.isFull()) << "no buffer was asked for";
    flow.setBufferSize(100);
    EXPECT_TRUE(flow.isFull());
    EXPECT_FALSE(flow.acknowledged(100));
    EXPECT_TRUE(flow.acknowledged(850));
    EXPECT_FALSE(flow.acknowledged(10)) << "there was room already";
    EXPECT_FALSE(flow.acknowledged(1'000'000));
    EXPECT_EQ(flow.outstanding(), 0u);
}

}  // namespace
}  // namespace kv::dcp
