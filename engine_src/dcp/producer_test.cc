#include "dcp/producer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "dcp/producer_test_support.h"

namespace kv::dcp {
namespace {

using namespace testing_support;

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
    // Whole snapshots: in this one, "d" might have replaced a document up to the requested end.
    const std::vector<std::pair<uint64_t, std::string>> expected{
            {1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}};
    EXPECT_EQ(documents(got, vb), expected);
    ASSERT_EQ(got.back().kind, MessageKind::StreamEnd);
    EXPECT_EQ(got.back().opaque, 103u);
    EXPECT_EQ(node.producer.findStream(vb), nullptr);
    EXPECT_TRUE(node.producer.paused());
}

TYPED_TEST(ProducerTest, AStreamEndsAfterTheSnapshotThatContainsItsEnd) {
    Node<TypeParam> node;
    node.config.maxItems = 3;
    const Vbid vb{3};
    node.stream(vb, Seqno{0}, Seqno{2});
    for (const char* key : {"a", "b", "a", "c", "d", "e"}) {
        node.write(vb, key);
    }
    const auto got = node.drain();
    const std::vector<std::pair<uint64_t, std::string>> expected{{2, "b"}, {3, "a"}, {4, "c"}};
    EXPECT_EQ(documents(got, vb), expected);
    EXPECT_EQ(markers(got), (Ranges{{0, 4}})) << "1 was replaced by 3";
    ASSERT_EQ(got.back().kind, MessageKind::StreamEnd);
    EXPECT_EQ(EndStatus{got.back().detail}, EndStatus::Ok);
}

TYPED_TEST(ProducerTest, AReplicasStreamEndsWithThePartOfTheSnapshotThatItHas) {
    Node<TypeParam> node;
    const Vbid vb{3};
    node.managers[vb.get()]->createSnapshot({Seqno{1}, Seqno{9}}, CheckpointType::Memory, false, 1);
    node.receive(vb, 2);
    node.receive(vb, 4);
    node.stream(vb, Seqno{0}, Seqno{4});
    const auto got = node.drain();
    EXPECT_EQ(documents(got, vb).size(), 2U);
    EXPECT_EQ(markers(got), (Ranges{{0, 9}})) << "it is not consistent at 4";
    EXPECT_EQ(got.back().kind, MessageKind::StreamEnd);
}

TYPED_TEST(ProducerTest, SendsDeletionsAndContinuesWhenMoreIsWritten) {
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

TYPED_TEST(ProducerTest, StopsWhenTheBufferIsFullAndContinuesAfterAnAcknowledgement) {
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

/// Writers, the tasks, and a client that sleeps until it is woken: everything must arrive,
/// otherwise a wake-up was lost.
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
                while (node.producer.runBackfills() == TypeParam::Backfills::More) {
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
                // vBuckets.
                const Vbid vbid{static_cast<uint16_t>(uint64_t{t} * 2 + random() % 2)};
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

/// Returns what one design sends for a sequence of random writes, persists, reads and cursor drops:
/// the documents of each vBucket, in order, without markers (the end of a snapshot depends on when
/// the client asks).
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

/// The same operations through every design give the same documents in the same order for every
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
#ifdef KV_SANITIZED
    constexpr unsigned kSeeds = 100;  // the build for releases tries all
#else
    constexpr unsigned kSeeds = 3'000;
#endif
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
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

TEST(FlowControl, ReportsWhenAFullBufferGetsRoom) {
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
