#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint_manager_test_support.h"

namespace kv {
namespace {

using testing::ElementsAre;

constexpr uint64_t kSecond = 1'000'000'000;

TEST_F(CheckpointManagerTest, AssignsConsecutiveSeqnosAndRisingCas) {
    EXPECT_EQ(queue("a", {}, 100).seqno, Seqno{1});
    EXPECT_EQ(manager().stats().maxCas, Cas{100});
    EXPECT_EQ(queue("b", {}, 100).cas, Cas{101});  // the clock stood still
    EXPECT_EQ(queue("c", {}, 50).cas, Cas{102});   // and was set back
    EXPECT_EQ(queue("d", {}, 500).cas, Cas{500});
    EXPECT_EQ(manager().highSeqno(), Seqno{4});
}

TEST_F(CheckpointManagerTest, AClockThatIsSetBackKeepsNoCheckpointOpen) {
    manager().persistence().registerCursor();
    queue("a", {}, 10'000 * kSecond);
    EXPECT_EQ(manager().stats().checkpoints, 1U);
    const uint64_t earlier = 10'000 * kSecond - 3600 * kSecond;
    queue("b", {}, earlier);
    EXPECT_EQ(manager().stats().checkpoints, 2U);
    queue("c", {}, earlier + kSecond);
    EXPECT_EQ(manager().stats().checkpoints, 2U);
}

TEST_F(CheckpointManagerTest, ContinuesAfterThePersistedState) {
    CheckpointManager restarted(
            Vbid{1}, config_,
            {.highSeqno = Seqno{41}, .snapshot = {Seqno{30}, Seqno{41}}, .maxCas = Cas{900}});
    EXPECT_EQ(restarted.currentSnapshot(), (SnapshotRange{Seqno{30}, Seqno{41}}));
    const auto result = restarted.queueDirty(Item::create(Vbid{1}, ItemOp::Mutation, "k", {}, {}),
                                             {}, GenerateSeqno::Yes, GenerateCas::Yes, 5);
    EXPECT_EQ(result.seqno, Seqno{42});
    EXPECT_EQ(result.cas, Cas{901});
    EXPECT_EQ(restarted.currentSnapshot(), (SnapshotRange{Seqno{42}, Seqno{42}}));
}

TEST_F(CheckpointManagerTest, WithoutCursorsNothingIsKept) {
    const size_t empty = manager().memory();
    for (int i = 0; i < 1000; ++i) {
        queue("key" + std::to_string(i));
    }
    EXPECT_EQ(manager().memory(), empty);
    EXPECT_EQ(manager().unpersisted(), 0U);
    ASSERT_TRUE(manager().assignOnly(7).has_value());
    EXPECT_EQ(manager().highSeqno(), Seqno{1001});
    // A later cursor is sent to backfill for the missing items, and gets those that follow.
    const auto late = manager().cursors().registerCursor("dcp", Seqno{10});
    EXPECT_TRUE(late.needsBackfill);
    EXPECT_EQ(late.nextSeqno, Seqno{1002});
    EXPECT_FALSE(manager().assignOnly(7).has_value());
    queue("after");
    EXPECT_THAT(keys(manager().cursors().getItemsForCursor(late.cursor, 100)),
                ElementsAre("after"));
    EXPECT_GT(manager().memory(), empty);
    EXPECT_TRUE(manager().cursors().removeCursor(late.cursor));
    EXPECT_EQ(manager().memory(), empty);
    EXPECT_FALSE(manager().cursors().removeCursor(late.cursor));
}

TEST_F(CheckpointManagerTest, ReplacingAnUnreadKeyLeavesOneItem) {
    manager().persistence().registerCursor();
    const auto first = queue("a");
    queue("b");
    const auto again = queue("a", first.seqno);
    EXPECT_EQ(again.status, QueueStatus::ExistingItem);
    EXPECT_EQ(manager().unpersisted(), 2U);
    const auto batch = manager().persistence().takeItemsToPersist(100);
    EXPECT_THAT(keys(batch), ElementsAre("b", "a"));
    EXPECT_EQ(batch.ranges.size(), 1U);
    EXPECT_EQ(batch.ranges[0].snapshot, (SnapshotRange{Seqno{1}, Seqno{3}}));
    EXPECT_EQ(manager().unpersisted(), 2U);  // not confirmed yet
    manager().persistence().persisted();
    EXPECT_EQ(manager().unpersisted(), 0U);
}

TEST_F(CheckpointManagerTest, ReplacingATakenKeyMustBePersistedAgain) {
    manager().persistence().registerCursor();
    const auto first = queue("a");
    (void)manager().persistence().takeItemsToPersist(100);
    EXPECT_EQ(queue("a", first.seqno).status, QueueStatus::PersistAgain);
    EXPECT_EQ(manager().unpersisted(), 2U);
    manager().persistence().persistFailed();
    // Only the newer version is still there to be stored.
    EXPECT_EQ(manager().unpersisted(), 1U);
    const auto retry = manager().persistence().takeItemsToPersist(100);
    ASSERT_EQ(retry.items.size(), 1U);
    EXPECT_EQ(retry.items[0]->seqno(), Seqno{2});
    manager().persistence().persisted();
    EXPECT_EQ(manager().unpersisted(), 0U);
}

TEST_F(CheckpointManagerTest, AFailedFlushReturnsEverythingAgain) {
    config_.maxItems = 2;
    manager().persistence().registerCursor();
    for (const char* key : {"a", "b", "c", "d", "e"}) {
        queue(key);
    }
    const auto taken = manager().persistence().takeItemsToPersist(3);
    EXPECT_THAT(keys(taken), ElementsAre("a", "b", "c", "d"));  // whole checkpoints
    EXPECT_TRUE(taken.more);
    manager().persistence().persistFailed();
    EXPECT_THAT(keys(manager().persistence().takeItemsToPersist(100)),
                ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(CheckpointManagerTest, AFlushTakesWholeCheckpointsUpToALimitOfBytes) {
    config_.maxCheckpoints = 2;
    config_.maxBytes = 20'000;
    manager().persistence().registerCursor();
    const auto stuck = manager().cursors().registerCursor("stuck", Seqno{});
    for (int i = 0; i < 1000; ++i) {
        queue("k" + std::to_string(i));
    }
    const size_t each = manager().memory() / 1000;
    std::vector<std::string> taken;
    for (bool more = true; more;) {
        const auto part =
                manager().persistence().takeItemsToPersist(1'000'000, 2 * config_.maxBytes);
        ASSERT_FALSE(part.items.empty());
        ASSERT_LE(part.items.size() * each, 2 * (config_.maxBytes + each));
        ASSERT_EQ(part.ranges.back().snapshot.end, part.items.back()->seqno()) << "a whole one";
        const auto found = keys(part);
        taken.insert(taken.end(), found.begin(), found.end());
        manager().persistence().persisted();
        more = part.more;
    }
    EXPECT_EQ(taken.size(), 1000U);
    EXPECT_EQ(manager().unpersisted(), 0U);
}

TEST_F(CheckpointManagerTest, ARemovedTombstoneStillDeduplicates) {
    manager().persistence().registerCursor();
    const auto dcp = manager().cursors().registerCursor("dcp", Seqno{});
    const auto deleted = manager().queueDirty(Item::create(Vbid{0}, ItemOp::Deletion, "a", {}, {}),
                                              {}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
    (void)manager().persistence().takeItemsToPersist(10);
    manager().persistence().persisted();
    manager().noteTombstoneRemoved("a", deleted.seqno);
    EXPECT_EQ(queue("a").status, QueueStatus::PersistAgain);
    const auto read = manager().cursors().getItemsForCursor(dcp.cursor, 10);
    ASSERT_EQ(read.items.size(), 1U);
    EXPECT_EQ(read.items[0]->seqno(), Seqno{2});
}

TEST_F(CheckpointManagerTest, NotesOfTombstonesAreCountedAndFreedWithTheOpenCheckpoint) {
    config_.maxItems = 20;
    manager().persistence().registerCursor();
    const std::string key(100, 'k');
    const auto remove = [&](const std::string& name) {
        const auto deleted =
                manager().queueDirty(Item::create(Vbid{0}, ItemOp::Deletion, name, {}, {}), {},
                                     GenerateSeqno::Yes, GenerateCas::Yes, kSecond);
        const size_t before = manager().memory();
        manager().noteTombstoneRemoved(name, deleted.seqno);
        return manager().memory() - before;
    };
    const size_t note = remove(key);
    EXPECT_GT(note, key.size());
    const size_t noted = manager().memory();
    queue(key, {}, kSecond);  // in the place of the deletion, which the flusher has not taken
    EXPECT_EQ(manager().memory() + note, noted + Blob::allocationSize(1) + sizeof(void*) * 2);
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(remove(key + std::to_string(i)), note + 1);
    }
    const size_t full = manager().memory();
    manager().removal().closeIfDue(100 * kSecond);
    ASSERT_EQ(manager().stats().checkpoints, 2U);
    EXPECT_EQ(manager().memory(), full - 10 * (note + 1) + sizeof(Checkpoint));
}

TEST_F(CheckpointManagerTest, ClosesByCountAndByTime) {
    config_.maxItems = 3;
    config_.maxCheckpoints = 100;
    manager().persistence().registerCursor();
    for (int i = 0; i < 7; ++i) {
        queue("k" + std::to_string(i), {}, kSecond);
    }
    EXPECT_EQ(manager().stats().checkpoints, 3U);
    queue("late", {}, 7 * kSecond);  // the open one is older than 5 s
    EXPECT_EQ(manager().stats().checkpoints, 4U);
    EXPECT_EQ(manager().stats().openItems, 1U);
    manager().removal().closeIfDue(11 * kSecond);
    EXPECT_EQ(manager().stats().checkpoints, 4U);
    manager().removal().closeIfDue(12 * kSecond);
    EXPECT_EQ(manager().stats().checkpoints, 5U);
    EXPECT_EQ(manager().stats().openItems, 0U);
}

TEST_F(CheckpointManagerTest, AFullListStopsClosing) {
    config_.maxItems = 1;
    config_.maxCheckpoints = 3;
    manager().persistence().registerCursor();
    for (int i = 0; i < 10; ++i) {
        queue("k" + std::to_string(i));
    }
    EXPECT_EQ(manager().stats().checkpoints, 3U);
    EXPECT_EQ(manager().stats().openItems, 8U);
    (void)manager().persistence().takeItemsToPersist(100);
    manager().persistence().persisted();
    queue("next");  // the oldest is no longer referenced: one more is allowed
    EXPECT_EQ(manager().stats().checkpoints, 4U);
}

TEST_F(CheckpointManagerTest, TheLastReaderLeavesALongLogToTheRemover) {
    config_.maxItems = 500;
    const size_t empty = manager().memory();
    const auto reader = manager().cursors().registerCursor("reader", Seqno{});
    for (int i = 0; i < 2250; ++i) {
        queue("key" + std::to_string(i));
    }
    ASSERT_EQ(manager().stats().checkpoints, 5U);
    const size_t full = manager().memory();
    EXPECT_TRUE(manager().cursors().removeCursor(reader.cursor));
    EXPECT_GE(manager().memory(), full) << "freeing it would take long";
    EXPECT_EQ(manager().stats().checkpoints, 1U);
    // Nobody gets it any more.
    const auto late = manager().cursors().registerCursor("late", Seqno{10});
    EXPECT_TRUE(late.needsBackfill);
    EXPECT_EQ(late.nextSeqno, Seqno{2251});
    queue("after");
    EXPECT_THAT(keys(manager().cursors().getItemsForCursor(late.cursor, 100)),
                ElementsAre("after"));
    (void)manager().removal().extractClosedUnrefCheckpoints();
    EXPECT_LT(manager().memory(), full / 10);
    EXPECT_TRUE(manager().cursors().removeCursor(late.cursor));
    EXPECT_EQ(manager().memory(), empty);
}

TEST_F(CheckpointManagerTest, ExtractionTakesCheckpointsThatNoCursorNeeds) {
    config_.maxItems = 1;
    config_.maxCheckpoints = 100;
    manager().persistence().registerCursor();
    const auto dcp = manager().cursors().registerCursor("dcp", Seqno{});
    for (int i = 0; i < 10; ++i) {
        queue("k" + std::to_string(i));
    }
    (void)manager().persistence().takeItemsToPersist(100);
    manager().persistence().persisted();
    EXPECT_EQ(manager().removal().extractClosedUnrefCheckpoints().size(),
              0U);  // dcp has read nothing
    EXPECT_THAT(manager().removal().getListOfCursorsToDrop(), ElementsAre(dcp.cursor));
    EXPECT_EQ(keys(manager().cursors().getItemsForCursor(dcp.cursor, 4)).size(), 4U);
    const size_t before = manager().memory();
    EXPECT_EQ(manager().removal().extractClosedUnrefCheckpoints().size(), 4U);
    EXPECT_LT(manager().memory(), before);
    EXPECT_TRUE(manager().cursors().removeCursor(dcp.cursor));
    EXPECT_EQ(manager().removal().extractClosedUnrefCheckpoints().size(), 5U);
    EXPECT_TRUE(manager().removal().getListOfCursorsToDrop().empty());
    EXPECT_TRUE(manager().cursors().getItemsForCursor(dcp.cursor, 4).items.empty());
}

TEST_F(CheckpointManagerTest, TheBackupCursorProtectsAFlushInProgress) {
    config_.maxItems = 1;
    config_.maxCheckpoints = 100;
    manager().persistence().registerCursor();
    const auto slow = manager().cursors().registerCursor("slow", Seqno{});
    queue("a");
    queue("b");
    (void)manager().cursors().getItemsForCursor(slow.cursor, 1);  // now in checkpoint 2
    (void)manager().persistence().takeItemsToPersist(100);  // persistence in 2 (open), backup in 1
    queue("c");
    queue("d");
    EXPECT_EQ(manager().removal().extractClosedUnrefCheckpoints().size(), 0U);
    EXPECT_TRUE(
            manager().removal().getListOfCursorsToDrop().empty());  // slow is not before the backup
    EXPECT_EQ(manager().removal().expel(), 0U);
    manager().persistence().persistFailed();
    EXPECT_EQ(manager().persistence().takeItemsToPersist(100).items.size(), 4U);
    manager().persistence().persisted();
    EXPECT_EQ(manager().removal().extractClosedUnrefCheckpoints().size(), 1U);
    EXPECT_THAT(manager().removal().getListOfCursorsToDrop(), ElementsAre(slow.cursor));
}

TEST_F(CheckpointManagerTest, ExpelFreesItemsThatAllCursorsHavePassed) {
    manager().persistence().registerCursor();
    const auto dcp = manager().cursors().registerCursor("dcp", Seqno{});
    queue("a");
    const auto b = queue("b");
    (void)manager().persistence().takeItemsToPersist(100);
    manager().persistence().persisted();
    EXPECT_EQ(manager().removal().expel(), 0U);
    (void)manager().cursors().getItemsForCursor(dcp.cursor, 100);
    queue("c");
    const size_t before = manager().memory();
    const size_t freed = manager().removal().expel();
    EXPECT_GT(freed, 0U);
    EXPECT_EQ(manager().memory(), before - freed);
    // The expelled version cannot be replaced in place any more, so the new one is a new entry.
    EXPECT_EQ(queue("b", b.seqno).status, QueueStatus::NewItem);
    EXPECT_THAT(keys(manager().cursors().getItemsForCursor(dcp.cursor, 100)),
                ElementsAre("c", "b"));
    const auto late = manager().cursors().registerCursor("late", Seqno{1});
    EXPECT_TRUE(late.needsBackfill);
    EXPECT_EQ(late.nextSeqno, Seqno{3});
    EXPECT_FALSE(manager().cursors().registerCursor("exact", Seqno{2}).needsBackfill);
}

TEST_F(CheckpointManagerTest, AReadIsBoundedHoweverLongAnotherReaderPauses) {
    config_.maxItems = 10;
    config_.maxCheckpoints = 2;
    const auto stuck = manager().cursors().registerCursor("stuck", Seqno{});
    const auto reader = manager().cursors().registerCursor("reader", Seqno{});
    for (int i = 0; i < 1000; ++i) {
        queue("k" + std::to_string(i));
    }
    const size_t each = manager().memory() / 1000;
    const size_t bound = 20 * each;
    std::vector<std::string> read;
    for (bool more = true; more;) {
        const auto part = manager().cursors().getItemsForCursor(reader.cursor, 1000, bound);
        ASSERT_FALSE(part.items.empty());
        ASSERT_LE(part.items.size(), 50U);
        for (const auto& key : keys(part)) {
            read.push_back(key);
        }
        more = part.more;
        // Items that have been read are not replaced within their snapshot.
        const auto again = queue("k0", Seqno{1});
        ASSERT_EQ(again.status, QueueStatus::NewItem);
        if (read.size() > 500) {
            break;
        }
    }
    ASSERT_GT(read.size(), 500U);
    for (size_t i = 0; i < read.size(); ++i) {
        EXPECT_EQ(read[i], "k" + std::to_string(i));
    }
    EXPECT_EQ(manager().cursors().getItemsForCursor(stuck.cursor, 10).items.size(), 10U);
}

TEST_F(CheckpointManagerTest, ManyReplacementsOfOneKeyDoNotPileUp) {
    manager().persistence().registerCursor();
    const auto dcp = manager().cursors().registerCursor("dcp", Seqno{});
    queue("other");
    (void)manager().cursors().getItemsForCursor(dcp.cursor, 1);
    QueueResult last = queue("hot");
    const size_t small = manager().memory();
    for (int i = 0; i < 100000; ++i) {
        last = queue("hot", last.seqno);
        ASSERT_EQ(last.status, QueueStatus::ExistingItem);
    }
    EXPECT_LT(manager().memory(), small + 4096);
    EXPECT_THAT(keys(manager().cursors().getItemsForCursor(dcp.cursor, 10)), ElementsAre("hot"));
    EXPECT_THAT(keys(manager().persistence().takeItemsToPersist(10)), ElementsAre("other", "hot"));
    manager().persistence().persisted();
}

TEST_F(CheckpointManagerTest, RegistersInTheMiddleOfTheLog) {
    config_.maxItems = 2;
    config_.maxCheckpoints = 100;
    manager().persistence().registerCursor();
    for (const char* key : {"a", "b", "c", "d", "e"}) {
        queue(key);
    }
    const auto middle = manager().cursors().registerCursor("dcp", Seqno{3});
    EXPECT_FALSE(middle.needsBackfill);
    EXPECT_EQ(middle.nextSeqno, Seqno{4});
    const auto read = manager().cursors().getItemsForCursor(middle.cursor, 1);
    EXPECT_THAT(keys(read), ElementsAre("d"));
    EXPECT_EQ(read.ranges[0].snapshot, (SnapshotRange{Seqno{3}, Seqno{4}}));
    // The same name again replaces the cursor: the old one is dead.
    const auto replaced = manager().cursors().registerCursor("dcp", Seqno{});
    EXPECT_TRUE(manager().cursors().getItemsForCursor(middle.cursor, 1).items.empty());
    EXPECT_EQ(manager().cursors().itemsLeft(replaced.cursor), 5U);
    EXPECT_EQ(manager().cursors().findCursor("dcp"), replaced.cursor);
    EXPECT_EQ(manager().cursors().findCursor("none"), nullptr);
    EXPECT_EQ(manager().stats().cursors, 2U);
}

TEST_F(CheckpointManagerTest, ClearStartsOver) {
    config_.maxItems = 2;
    manager().persistence().registerCursor();
    const auto dcp = manager().cursors().registerCursor("dcp", Seqno{});
    for (int i = 0; i < 7; ++i) {
        queue("k" + std::to_string(i));
    }
    manager().clear(
            {.highSeqno = Seqno{100}, .snapshot = {Seqno{90}, Seqno{100}}, .maxCas = Cas{5}}, 1,
            CheckpointManager::makeEmptyCheckpoint());
    EXPECT_EQ(manager().unpersisted(), 0U);
    EXPECT_EQ(manager().stats().checkpoints, 1U);
    EXPECT_EQ(manager().stats().cursors, 1U);
    EXPECT_TRUE(manager().cursors().getItemsForCursor(dcp.cursor, 10).items.empty());
    EXPECT_EQ(queue("new").seqno, Seqno{101});
    EXPECT_THAT(keys(manager().persistence().takeItemsToPersist(10)), ElementsAre("new"));
    manager().persistence().persisted();
}

TEST(CheckpointPolicyTest, TheSelectedPoliciesAreTheBuildsSwitches) {
    EXPECT_TRUE((std::is_same_v<CheckpointRemoval::Drop, options::SelectedCursorDrop>));
    EXPECT_TRUE((std::is_same_v<CheckpointRemoval::Extract, options::SelectedCheckpointExtract>));
}

}  // namespace
}  // namespace kv
