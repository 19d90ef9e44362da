#include "checkpoint/checkpoint_remover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "checkpoint/checkpoint_manager.h"

namespace kv {
namespace {

using testing::ElementsAre;

class Dropper final : public CursorDropper {
  public:
    bool dropCursor(Vbid vbid, const CursorPtr& cursor) override {
        asked.push_back(std::to_string(vbid.get()) + ":" + cursor->name());
        return agrees;
    }
    std::vector<std::string> asked;
    bool agrees{true};
};

class CheckpointRemoverTest : public testing::Test {
  protected:
    CheckpointRemoverTest() {
        config_.maxItems = 10;
        config_.maxCheckpoints = 1000;
        for (uint16_t id = 0; id < 3; ++id) {
            managers_.push_back(std::make_unique<CheckpointManager>(Vbid{id}, config_));
            managers_.back()->persistence().registerCursor();
        }
    }
    CheckpointManager& vb(size_t id) { return *managers_[id]; }
    void fill(size_t id, int items) {
        for (int i = 0; i < items; ++i) {
            vb(id).queueDirty(
                    Item::create(Vbid{static_cast<uint16_t>(id)}, ItemOp::Mutation,
                                 "k" + std::to_string(i), {}, Blob::create(std::string(1000, 'v'))),
                    {}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
        }
    }
    void persist(size_t id) {
        (void)vb(id).persistence().takeItemsToPersist(~size_t{0});
        vb(id).persistence().persisted();
    }
    CheckpointRemover remover() {
        return {{vb(0).removal(), vb(1).removal(), vb(2).removal()}, config_};
    }

    static constexpr size_t kPlenty = size_t{1} << 40;
    CheckpointConfig config_;
    std::vector<std::unique_ptr<CheckpointManager>> managers_;
    Dropper dropper_;
};

TEST_F(CheckpointRemoverTest, RemovesClosedCheckpointsThatAllHaveRead) {
    fill(0, 35);
    fill(1, 35);
    persist(0);
    const auto result = remover().run(kPlenty, 0, 2, &dropper_);
    EXPECT_EQ(result.checkpointsRemoved, 3U);
    EXPECT_EQ(result.bytesExpelled, 0U);
    EXPECT_EQ(vb(0).stats().checkpoints, 1U);
    EXPECT_EQ(vb(1).stats().checkpoints, 4U);
}

TEST_F(CheckpointRemoverTest, ClosesOldCheckpointsOfQuietVBuckets) {
    fill(0, 5);
    persist(0);
    EXPECT_EQ(remover().run(kPlenty, 0, 2, nullptr).checkpointsRemoved, 0U);
    EXPECT_EQ(remover().run(kPlenty, 0, 6'000'000'000, nullptr).checkpointsRemoved, 1U);
    EXPECT_EQ(vb(0).stats().openItems, 0U);
}

TEST_F(CheckpointRemoverTest, ExpelsOnlyAboveTheUpperMarkAndDownToTheLower) {
    fill(0, 9);
    fill(1, 5);
    persist(0);
    persist(1);
    auto under = remover();
    const size_t used = under.memory();
    // Just within the upper mark: 0.45 of the quota.
    EXPECT_EQ(under.run(static_cast<size_t>(static_cast<double>(used) / 0.45) + 10, 0, 2, nullptr)
                      .bytesExpelled,
              0U);
    // Just above it: the biggest vBucket alone brings it below the lower mark, 0.3.
    const auto result =
            under.run(static_cast<size_t>(static_cast<double>(used) / 0.45) - 10, 0, 2, nullptr);
    EXPECT_GT(result.bytesExpelled, 9000U);
    EXPECT_EQ(vb(0).stats().openItems, 0U);
    EXPECT_EQ(vb(1).stats().openItems, 5U);
}

TEST_F(CheckpointRemoverTest, AFullBucketExpelsEverythingThatAllHaveRead) {
    fill(0, 5);
    fill(1, 5);
    fill(2, 5);
    persist(0);
    persist(1);
    EXPECT_GT(remover().run(kPlenty, 1, 2, &dropper_).bytesExpelled, 10000U);
    EXPECT_EQ(vb(0).stats().openItems + vb(1).stats().openItems, 0U);
    EXPECT_EQ(vb(2).stats().openItems, 5U);
    EXPECT_TRUE(dropper_.asked.empty());
}

TEST_F(CheckpointRemoverTest, DropsSlowCursorsOfTheBiggestFirstUntilEnough) {
    for (const size_t id : {0U, 1U, 2U}) {
        vb(id).cursors().registerCursor("slow", Seqno{});
    }
    const auto quick = vb(1).cursors().registerCursor("quick", Seqno{});
    fill(0, 25);
    fill(1, 95);
    fill(2, 15);
    for (const size_t id : {0U, 1U, 2U}) {
        persist(id);
    }
    (void)vb(1).cursors().getItemsForCursor(quick.cursor, ~size_t{0});
    auto subject = remover();
    const size_t quota = static_cast<size_t>(static_cast<double>(subject.memory()) / 0.5);
    const auto result = subject.run(quota, 0, 2, &dropper_);
    EXPECT_THAT(dropper_.asked, ElementsAre("1:slow"));
    EXPECT_EQ(result.cursorsDropped, 1U);
    EXPECT_GT(result.bytesFreedByDrops, 90000U);
    EXPECT_EQ(vb(1).cursors().findCursor("slow"), nullptr);
    EXPECT_NE(vb(1).cursors().findCursor("quick"), nullptr);
    EXPECT_NE(vb(0).cursors().findCursor("slow"), nullptr);
    EXPECT_FALSE(subject.isOver(quota));
}

TEST_F(CheckpointRemoverTest, AFullBucketDropsSlowCursorsUntilEnoughIsFree) {
    for (const size_t id : {0U, 1U, 2U}) {
        vb(id).cursors().registerCursor("slow", Seqno{});
    }
    fill(0, 25);
    fill(1, 95);
    fill(2, 15);
    for (const size_t id : {0U, 1U, 2U}) {
        persist(id);
    }
    // Checkpoints take nearly nothing of the quota; other data has filled the bucket.
    auto subject = remover();
    const size_t before = subject.memory();
    const auto result = subject.run(kPlenty, 20'000, 2, &dropper_);
    EXPECT_THAT(dropper_.asked, ElementsAre("1:slow")) << "the biggest alone is enough";
    EXPECT_GE(before - subject.memory(), 20'000U);
    EXPECT_EQ(result.cursorsDropped, 1U);
    EXPECT_EQ(subject.run(kPlenty, 1, 2, nullptr).cursorsDropped, 0U);
}

TEST_F(CheckpointRemoverTest, ACursorWhoseOwnerCannotStays) {
    const auto slow = vb(0).cursors().registerCursor("slow", Seqno{});
    fill(0, 50);
    persist(0);
    dropper_.agrees = false;
    const auto result = remover().run(1000, 0, 2, &dropper_);
    EXPECT_THAT(dropper_.asked, ElementsAre("0:slow"));
    EXPECT_EQ(result.cursorsDropped, 0U);
    EXPECT_EQ(vb(0).cursors().itemsLeft(slow.cursor), 50U);
    EXPECT_EQ(remover().run(1000, 0, 2, nullptr).cursorsDropped, 0U);
}

}  // namespace
}  // namespace kv
