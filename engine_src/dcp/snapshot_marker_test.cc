// The snapshots that a stream announces, in every design of the producer.
#include <gtest/gtest.h>

#include "dcp/producer_test_support.h"

namespace kv::dcp {
namespace {

using namespace testing_support;

template <class P>
class SnapshotMarkerTest : public testing::Test {};
TYPED_TEST_SUITE(SnapshotMarkerTest, AllProducers);

TYPED_TEST(SnapshotMarkerTest, AMarkerBeginsWhereTheClientIsConsistent) {
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

TYPED_TEST(SnapshotMarkerTest, MarkersOfABackfillAndAfterItBeginWhereTheClientIsConsistent) {
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

TYPED_TEST(SnapshotMarkerTest, AClientThatHasASnapshotInPartIsConsistentBeforeItUntilItIsComplete) {
    Node<TypeParam> node;
    node.config.maxItems = 3;
    const Vbid vb{1};
    for (int i = 0; i < 9; ++i) {
        node.write(vb, "k" + std::to_string(i));
    }
    // The client has 3..8 up to 4. Memory has 4..6 and 7..9, and the client is consistent again
    // only after 8.
    node.stream(vb, Seqno{4}, Seqno{UINT64_MAX}, false, SnapshotRange{Seqno{2}, Seqno{8}});
    auto got = node.drain();
    EXPECT_EQ(markers(got), (Ranges{{2, 8}, {2, 9}}));
    EXPECT_EQ(documents(got, vb).size(), 5U);
    node.write(vb, "k");
    EXPECT_EQ(markers(node.drain()), (Ranges{{9, 10}}));

    // The same from disk, which has less than the snapshot announced.
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

TYPED_TEST(SnapshotMarkerTest, AStreamThatReturnsToDiskInMidSnapshotAnnouncesIt) {
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
    node.dropCursor(vb);
    node.persist(vb);
    EXPECT_EQ(markers(node.drain()), (Ranges{{0, 6}})) << "3 is in the middle of a snapshot";
}

TYPED_TEST(SnapshotMarkerTest, AStreamThatMissedAPurgedDeletionRollsBack) {
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
    node.dropCursor(vb);
    node.persist(vb);
    node.store.purgedSeqno = Seqno{5};
    const auto got = node.drain();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].kind, MessageKind::StreamEnd);
    EXPECT_EQ(got[0].detail, static_cast<uint32_t>(EndStatus::Rollback));
}

TYPED_TEST(SnapshotMarkerTest, AMarkerContainsThePurgeSeqnoIfRequested) {
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
        // From memory as well: this may be a copy that learned of it from its source.
        node.store.purgedSeqno = Seqno{6};
        node.write(vb, "later");
        const auto got = node.drain();
        ASSERT_EQ(got.size(), 2U);
        ASSERT_EQ(got[0].kind, MessageKind::SnapshotMarker);
        EXPECT_EQ(got[0].purged, asked ? Seqno{6} : Seqno{});
        EXPECT_EQ(got[0].wireSize(), asked ? 24U + 53U : 24U + 20U);
    }
}

TYPED_TEST(SnapshotMarkerTest, AReplicaDoesNotCallASnapshotCompleteThatItHasInPart) {
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

TYPED_TEST(SnapshotMarkerTest, AStreamOfAVBucketThatRolledBackSaysOnlyThat) {
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

}  // namespace
}  // namespace kv::dcp
