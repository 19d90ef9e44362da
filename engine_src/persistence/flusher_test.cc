// One vBucket's flush to a store in memory, for every combination of the flush switches: the same
// documents, the same callbacks.
#include "persistence/flusher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "persistence/flusher_test_support.h"

namespace kv {
namespace {

using testing::ElementsAre;
using testing_support::MemoryStore;
using testing_support::ScriptedTarget;

template <class Options>
class FlusherTest : public testing::Test {
  protected:
    MemoryStore store_;
    ScriptedTarget target_;
    FlusherConfig config_;
    BasicFlusher<Options> flusher_{store_, 8, config_};
};

using options::DedupMap;
using options::DedupSet;
using options::FreeAfterCommit;
using options::FreeBeforeCommit;
using options::IdsVector;
using options::ItemCallback;
using options::NoIds;
using options::TransactionCallback;
using AllOptions =
        testing::Types<FlushOptions<ItemCallback, IdsVector, FreeAfterCommit, DedupMap>,
                       FlushOptions<ItemCallback, IdsVector, FreeAfterCommit, DedupSet>,
                       FlushOptions<ItemCallback, IdsVector, FreeBeforeCommit, DedupMap>,
                       FlushOptions<ItemCallback, IdsVector, FreeBeforeCommit, DedupSet>,
                       FlushOptions<ItemCallback, NoIds, FreeAfterCommit, DedupMap>,
                       FlushOptions<ItemCallback, NoIds, FreeAfterCommit, DedupSet>,
                       FlushOptions<ItemCallback, NoIds, FreeBeforeCommit, DedupMap>,
                       FlushOptions<ItemCallback, NoIds, FreeBeforeCommit, DedupSet>,
                       FlushOptions<TransactionCallback, IdsVector, FreeAfterCommit, DedupMap>,
                       FlushOptions<TransactionCallback, IdsVector, FreeAfterCommit, DedupSet>,
                       FlushOptions<TransactionCallback, IdsVector, FreeBeforeCommit, DedupMap>,
                       FlushOptions<TransactionCallback, IdsVector, FreeBeforeCommit, DedupSet>,
                       FlushOptions<TransactionCallback, NoIds, FreeAfterCommit, DedupMap>,
                       FlushOptions<TransactionCallback, NoIds, FreeAfterCommit, DedupSet>,
                       FlushOptions<TransactionCallback, NoIds, FreeBeforeCommit, DedupMap>,
                       FlushOptions<TransactionCallback, NoIds, FreeBeforeCommit, DedupSet>>;
TYPED_TEST_SUITE(FlusherTest, AllOptions);

TYPED_TEST(FlusherTest, StoresTheNewestOfEachKey) {
    this->target_.add("b");
    this->target_.add("a");
    this->target_.add("b");
    this->target_.add("c", ItemOp::Deletion);
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_THAT(this->store_.puts, ElementsAre("a@2", "b@3", "c@4"));
    EXPECT_THAT(this->target_.log, ElementsAre("set a", "set b", "del c", "persisted"));
    const PersistedVbState& state = this->store_.states.back();
    EXPECT_EQ(state.highSeqno, Seqno{4});
    EXPECT_EQ(state.maxCas, Cas{40});
    EXPECT_EQ(state.snapshot, (SnapshotRange{Seqno{1}, Seqno{4}}));
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Nothing);
}

TYPED_TEST(FlusherTest, OnlyACommitOfWholeSnapshotsIsARollbackPoint) {
    const auto flush = [this] {
        this->target_.add("a");
        EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
        const auto points = this->store_.states.back().rollbackPoints.all();
        return std::vector<Seqno>(points.begin(), points.end());
    };
    EXPECT_THAT(flush(), ElementsAre(Seqno{1}));
    this->target_.snapshotEnd = Seqno{3};
    EXPECT_THAT(flush(), ElementsAre(Seqno{1}));
    EXPECT_THAT(flush(), ElementsAre(Seqno{1}, Seqno{3}));
}

TYPED_TEST(FlusherTest, DistinguishesInsertsUpdatesAndDeletions) {
    const auto flush = [this] {
        ASSERT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    };
    this->target_.add("a");
    this->target_.add("b");
    flush();
    this->target_.add("a");
    this->target_.add("b", ItemOp::Deletion);
    this->target_.add("c", ItemOp::Expiration);
    flush();
    this->target_.add("b");
    flush();
    const FlusherStats& stats = this->flusher_.stats();
    EXPECT_EQ(stats.inserts, 3U);
    EXPECT_EQ(stats.updates, 1U);
    EXPECT_EQ(stats.deletes, 1U);
    EXPECT_EQ(stats.deleteMisses, 1U);
    EXPECT_EQ(stats.persisted, 6U);
}

TYPED_TEST(FlusherTest, ARefusedCommitReportsEveryRequestAndKeepsEverything) {
    this->target_.add("a");
    this->target_.add("a");
    this->target_.add("b", ItemOp::Deletion);
    this->target_.stateChange = true;
    this->store_.failCommits = 1;
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Failed);
    EXPECT_THAT(this->target_.log, ElementsAre("failed"));
    EXPECT_TRUE(this->target_.stateChange);
    EXPECT_EQ(this->flusher_.stats().failedItems, 2U);
    EXPECT_EQ(this->flusher_.stats().persisted, 0U);
    EXPECT_EQ(this->flusher_.stats().duplicates, 0U);
    EXPECT_EQ(this->target_.queue.size(), 3U);
    EXPECT_TRUE(this->store_.docs.empty());
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_EQ(this->store_.docs.size(), 2U);
    EXPECT_EQ(this->flusher_.stats().duplicates, 1U) << "counted once";
}

TYPED_TEST(FlusherTest, AReadErrorDropsTheTransaction) {
    this->target_.add("a");
    this->target_.add("b");
    this->store_.throwAtPut = 2;
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Failed);
    EXPECT_EQ(this->store_.abandoned, 1);
    EXPECT_THAT(this->target_.log, ElementsAre("failed"));
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_EQ(this->store_.docs.size(), 2U);
}

TYPED_TEST(FlusherTest, AStoreThatThrowsFailsTheFlushAndNothingElse) {
    this->target_.stateChange = true;
    this->store_.throwAtState = 1;
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Failed);
    EXPECT_TRUE(this->target_.stateChange);
    this->target_.throwAtPrepare = 1;
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Failed);
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_EQ(this->store_.states.size(), 1U);
}

TYPED_TEST(FlusherTest, TheItemsLiveUntilTheirCallbacks) {
    // The batch may be freed before the commit; the requests must keep the items that the callbacks
    // need.
    this->target_.add("only");
    this->store_.onCommit = [this] { this->target_.queue.clear(); };
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_EQ(this->target_.log.front(), "set only");
}

TYPED_TEST(FlusherTest, AStateChangeAloneIsStored) {
    this->target_.stored.highSeqno = Seqno{7};
    this->target_.stateChange = true;
    this->store_.failCommits = 1;
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Failed);
    EXPECT_TRUE(this->target_.stateChange);
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_EQ(this->store_.states.back().highSeqno, Seqno{7});
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Nothing);
}

/// The same random history gives the same documents with every combination (compared with a model).
TYPED_TEST(FlusherTest, RandomHistoriesMatchAModel) {
    std::mt19937 random(7);
    const auto pick = [&](uint32_t below) {
        return std::uniform_int_distribution<uint32_t>(0, below - 1)(random);
    };
    std::map<std::string, std::pair<Seqno, bool>> model;
    uint64_t inserts = 0;
    uint64_t updates = 0;
    uint64_t deletes = 0;
    for (int round = 0; round < 200; ++round) {
        std::map<std::string, std::pair<Seqno, bool>> batch;
        for (uint32_t count = pick(20); count > 0; --count) {
            const std::string key = "k" + std::to_string(pick(15));
            const ItemOp op = pick(3) == 0 ? ItemOp::Deletion : ItemOp::Mutation;
            this->target_.add(key, op);
            batch[key] = {Seqno{this->target_.high}, op == ItemOp::Mutation};
        }
        while (pick(4) == 0) {
            this->store_.failCommits = 1;
            (void)this->flusher_.flushVBucket(this->target_);
            this->store_.failCommits = 0;
        }
        while (this->flusher_.flushVBucket(this->target_) != FlushResult::Nothing) {
        }
        // A failed attempt may have stored nothing, so what counts is the model before this round.
        for (const auto& [key, doc] : batch) {
            const bool wasLive = model.contains(key) && model[key].second;
            inserts += doc.second && !wasLive ? 1U : 0U;
            updates += doc.second && wasLive ? 1U : 0U;
            deletes += !doc.second && wasLive ? 1U : 0U;
            model[key] = doc;
        }
        ASSERT_EQ(this->store_.docs, model);
    }
    EXPECT_EQ(this->flusher_.stats().inserts, inserts);
    EXPECT_EQ(this->flusher_.stats().updates, updates);
    EXPECT_EQ(this->flusher_.stats().deletes, deletes);
}

/// Both ways, for few items and for many: the newest version of each key stays, in any order.
TEST(DropOlderVersionsTest, KeepsTheNewestOfEachKey) {
    std::mt19937 random(5);
    for (const size_t count : {0U, 1U, 2U, 100U, 1023U, 1024U, 1025U, 3000U}) {
        for (const uint32_t keys : {1U, 50U, 5000U}) {
            std::vector<ItemPtr> items;
            std::map<std::string, Seqno> newest;
            for (uint64_t seqno = 1; seqno <= count; ++seqno) {
                const std::string key = "k" + std::to_string(random() % keys);
                items.push_back(Item::create(Vbid{0}, ItemOp::Mutation, key,
                                             {.seqno = Seqno{seqno}}, Blob::create("v")));
                newest[key] = Seqno{seqno};
            }
            const bool inOrder = random() % 2 == 0;
            if (!inOrder) {
                std::shuffle(items.begin(), items.end(), random);
            }
            EXPECT_EQ(dropOlderVersions(items), count - newest.size());
            std::map<std::string, Seqno> kept;
            for (const ItemPtr& item : items) {
                EXPECT_TRUE(kept.emplace(item->key(), item->seqno()).second);
            }
            EXPECT_EQ(kept, newest) << count << " items, " << keys << " keys";
            if (inOrder && count <= 1024) {
                EXPECT_TRUE(std::is_sorted(
                        items.begin(), items.end(),
                        [](const ItemPtr& a, const ItemPtr& b) { return a->seqno() < b->seqno(); }))
                        << "few stay in their order";
            }
        }
    }
}

TEST(FlushPolicyTest, TheSelectedPoliciesAreTheBuildsSwitches) {
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Callback, options::SelectedFlushCallback>));
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Ids, options::SelectedFlushIds>));
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Free, options::SelectedFlushFree>));
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Dedup, options::SelectedFlushDedup>));
    // The difference that the callback switch makes: a request is an item, or an item and a
    // function object.
    EXPECT_EQ(sizeof(TransactionCallback::Request), sizeof(ItemPtr));
    EXPECT_EQ(sizeof(ItemCallback::Request),
              sizeof(ItemPtr) + sizeof(std::function<void()>) + sizeof(size_t));
}

}  // namespace
}  // namespace kv
