// The snapshots that a replica receives: what it keeps of them, and where its log is consistent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "checkpoint/checkpoint_manager_test_support.h"

namespace kv {
namespace {

using testing::ElementsAre;

class ReplicaSnapshotTest : public CheckpointManagerTest {
  protected:
    void marker(uint64_t start, uint64_t end) {
        manager().createSnapshot({Seqno{start}, Seqno{end}}, CheckpointType::Memory, false, 1);
    }
    void receive(uint64_t seqno) {
        manager().queueDirty(Item::create(Vbid{0}, ItemOp::Mutation, "k" + std::to_string(seqno),
                                          {.cas = Cas{seqno}, .seqno = Seqno{seqno}}, {}),
                             Seqno{}, GenerateSeqno::No, GenerateCas::No, 1);
    }
};

TEST_F(ReplicaSnapshotTest, AReplicaKeepsTheSnapshotsItIsSent) {
    manager().persistence().registerCursor();
    manager().createSnapshot({Seqno{1}, Seqno{10}}, CheckpointType::Disk, false, 1);
    const auto receive = [&](std::string_view key, uint64_t seqno, Seqno previous = Seqno{}) {
        return manager().queueDirty(
                Item::create(Vbid{0}, ItemOp::Mutation, key,
                             {.cas = Cas{seqno * 7}, .seqno = Seqno{seqno}}, {}),
                previous, GenerateSeqno::No, GenerateCas::No, 1);
    };
    receive("a", 2);
    receive("b", 10);  // gaps: the active copy had de-duplicated
    EXPECT_EQ(manager().currentSnapshot(), (SnapshotRange{Seqno{1}, Seqno{10}}));
    manager().createSnapshot({Seqno{11}, Seqno{12}}, CheckpointType::Memory, false, 1);
    EXPECT_EQ(manager().currentSnapshot(),
              (SnapshotRange{Seqno{1}, Seqno{10}}));  // no item of the new one is here
    receive("a", 11, Seqno{2});
    manager().createSnapshot({Seqno{11}, Seqno{20}}, CheckpointType::Memory, true, 1);
    EXPECT_EQ(receive("a", 20, Seqno{11}).status, QueueStatus::ExistingItem);
    const auto batch = manager().persistence().takeItemsToPersist(100);
    ASSERT_EQ(batch.ranges.size(), 2U);
    EXPECT_EQ(batch.ranges[0].type, CheckpointType::Disk);
    EXPECT_EQ(batch.ranges[0].snapshot, (SnapshotRange{Seqno{1}, Seqno{10}}));
    EXPECT_EQ(batch.ranges[1].snapshot, (SnapshotRange{Seqno{11}, Seqno{20}}));
    EXPECT_EQ(manager().stats().maxCas, Cas{140});
    manager().persistence().persisted();
    // After becoming active, mutations are not part of the replica's snapshot.
    EXPECT_EQ(queue("c").seqno, Seqno{21});
    EXPECT_EQ(manager().currentSnapshot(), (SnapshotRange{Seqno{21}, Seqno{21}}));
}

TEST_F(ReplicaSnapshotTest, ALogIsConsistentAtTheEndOfACompleteSnapshot) {
    manager().persistence().registerCursor();
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{0});
    marker(1, 2);
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{0}) << "nothing of it has come";
    marker(1, 2);
    receive(1);
    receive(2);
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{2});
    EXPECT_EQ(queue("mine").seqno, Seqno{3});
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{3});
}

TEST_F(ReplicaSnapshotTest, InTheMiddleOfASnapshotItIsConsistentBeforeIt) {
    manager().persistence().registerCursor();
    marker(1, 2);
    receive(1);
    receive(2);
    marker(3, 9);
    receive(5);
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{2});
    EXPECT_EQ(manager().currentSnapshot(), (SnapshotRange{Seqno{3}, Seqno{5}}))
            << "the rest will not come";
    const auto batch = manager().persistence().takeItemsToPersist(100);
    EXPECT_EQ(batch.ranges.back().snapshot, (SnapshotRange{Seqno{3}, Seqno{5}}));
    manager().persistence().persisted();
}

TEST_F(ReplicaSnapshotTest, TheRestOfASnapshotKeepsItsBeginning) {
    manager().persistence().registerCursor();
    const auto reader = manager().cursors().registerCursor("dcp", Seqno{0});
    marker(1, 9);
    receive(4);
    marker(5, 9);  // another connection continued it
    EXPECT_EQ(manager().currentSnapshot(), (SnapshotRange{Seqno{1}, Seqno{9}}));
    receive(7);
    EXPECT_EQ(manager().currentSnapshot(), (SnapshotRange{Seqno{1}, Seqno{9}}));
    EXPECT_THAT(keys(manager().cursors().getItemsForCursor(reader.cursor, 10)),
                ElementsAre("k4", "k7"));
    EXPECT_FALSE(manager().cursors().registerCursor("late", Seqno{2}).needsBackfill);
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{0});
}

TEST_F(ReplicaSnapshotTest, AfterARestartTheRestKeepsItsBeginningToo) {
    manager().persistence().registerCursor();
    manager().clear({.highSeqno = Seqno{5}, .snapshot = {Seqno{3}, Seqno{9}}}, 1,
                    CheckpointManager::makeEmptyCheckpoint());
    marker(6, 9);
    receive(6);
    EXPECT_EQ(manager().beginActive(1, 0), Seqno{2});
}

// In every build: a release build has no asserts.
TEST_F(ReplicaSnapshotTest, AnAssignedSeqnoIsNotAcceptedAgain) {
    manager().persistence().registerCursor();
    const auto receive = [&] {
        manager().queueDirty(Item::create(Vbid{0}, ItemOp::Mutation, "k",
                                          {.cas = Cas{7}, .seqno = Seqno{3}}, {}),
                             Seqno{}, GenerateSeqno::No, GenerateCas::No, 1);
    };
    receive();
    EXPECT_DEATH(receive(), "seqnos ascend");
}

}  // namespace
}  // namespace kv
