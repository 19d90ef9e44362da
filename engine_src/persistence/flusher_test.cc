// The flusher against a store in memory, for every choice of the flush switches: the same
// documents, the same callbacks.
#include "persistence/flusher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kv {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// What the flusher needs of a store, with the transaction made visible.
class MemoryStore final : public KVStore {
  public:
    void begin(Vbid, size_t) override {}
    bool put(const Item& item) override {
        puts.push_back(std::string(item.key()) + "@" + std::to_string(item.seqno().get()));
        if ((throwAtPut > 0 && --throwAtPut == 0) || unreadable.contains(item.vbid().get())) {
            throw StoreError("read error");
        }
        const auto found = docs.find(std::string(item.key()));
        batch_[std::string(item.key())] = {item.seqno(), !item.isDeletion()};
        return found != docs.end() && found->second.second;
    }
    void end(const PersistedVbState& state) override { ended_.push_back(state); }
    bool commit() override {
        const auto batch = std::exchange(batch_, {});
        const auto ended = std::exchange(ended_, {});
        if (failCommits > 0) {
            --failCommits;
            return false;
        }
        ++commits;
        for (const auto& [key, doc] : batch) {
            docs[key] = doc;
        }
        states.insert(states.end(), ended.begin(), ended.end());
        if (onCommit) {
            onCommit();
        }
        return true;
    }
    void abandon() override {
        batch_.clear();
        ended_.clear();
        ++abandoned;
    }
    bool sync() override { return true; }
    bool saveVbState(Vbid, const PersistedVbState& state) override {
        if (failCommits > 0) {
            --failCommits;
            return false;
        }
        states.push_back(state);
        return true;
    }
    std::optional<PersistedVbState> loadVbState(Vbid) override { return std::nullopt; }
    std::vector<Vbid> listPersistedVbuckets() override { return {}; }
    bool delVBucket(Vbid, const PersistedVbState&) override { return true; }
    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid, Seqno, Seqno) override { return nullptr; }
    bool rollback(Vbid, Seqno) override { return false; }
    bool removeTombstones(Vbid, const std::vector<std::pair<std::string, Seqno>>&,
                          const PersistedVbState&) override {
        return false;
    }
    size_t countLive(Vbid) override { return 0; }
    KVStoreStats stats() override { return {}; }

    std::map<std::string, std::pair<Seqno, bool>> docs;
    std::vector<std::string> puts;
    std::vector<PersistedVbState> states;
    std::function<void()> onCommit;
    int failCommits{0};
    int throwAtPut{0};
    std::set<uint16_t> unreadable;  ///< vBuckets whose keys cannot be looked up
    int abandoned{0};
    int commits{0};

  protected:
    bool read(Vbid, std::string_view, std::string&, StoredDoc&) override { return false; }

  private:
    std::map<std::string, std::pair<Seqno, bool>> batch_;
    std::vector<PersistedVbState> ended_;
};

/// A vBucket whose queue is a vector.
class ScriptedTarget final : public FlushTarget {
  public:
    explicit ScriptedTarget(Vbid vbid = Vbid{0}) : vbid_(vbid) {}
    Vbid vbid() const override { return vbid_; }
    std::unique_lock<std::mutex> lockForFlush() override {
        if (onWait) {
            std::exchange(onWait, nullptr)();
        }
        return std::unique_lock(mutex_);
    }
    std::unique_lock<std::mutex> tryLockForFlush() override {
        return onWait ? std::unique_lock<std::mutex>() : lockForFlush();
    }
    FlushBatch takeItemsToPersist(size_t limit, size_t limitBytes) override {
        FlushBatch batch;
        taken_ = 0;
        for (size_t bytes = 0; taken_ < std::min(limit, queue.size()); ++taken_) {
            bytes += queue[taken_]->value().size();
            if (taken_ != 0 && bytes > limitBytes) {
                break;
            }
        }
        batch.more = taken_ < queue.size();
        batch.items.assign(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(taken_));
        if (taken_ > 0) {
            batch.snapshot = {batch.items.front()->seqno(),
                              snapshotEnd.value_or(batch.items.back()->seqno())};
        }
        return batch;
    }
    PersistedVbState stateToPersist() override {
        PersistedVbState state = stored;
        state.state = 1;
        return state;
    }
    bool takeStateChange() override { return stateChange; }
    void stateChangeStored() override { stateChange = false; }
    void persistedSet(const Item& item) override {
        log.push_back("set " + std::string(item.key()));
    }
    void persistedDelete(const Item& item) override {
        log.push_back("del " + std::string(item.key()));
    }
    void persisted(const PersistedVbState& state) override {
        stored = state;
        queue.erase(queue.begin(),
                    queue.begin() + static_cast<std::ptrdiff_t>(std::min(taken_, queue.size())));
        log.emplace_back("persisted");
    }
    void persistFailed() override { log.emplace_back("failed"); }
    void add(std::string_view key, ItemOp op = ItemOp::Mutation, std::string_view value = "v") {
        ++high;
        queue.push_back(Item::create(vbid_, op, key, {.cas = Cas{high * 10}, .seqno = Seqno{high}},
                                     Blob::create(value)));
    }

    std::function<void()> onWait;  ///< somebody has the lock, and gives it up after this
    std::vector<ItemPtr> queue;
    std::vector<std::string> log;
    PersistedVbState stored;
    bool stateChange{false};
    std::optional<Seqno> snapshotEnd;  ///< where the snapshot ends, if not with what is queued
    uint64_t high{0};

  private:
    const Vbid vbid_;
    std::mutex mutex_;
    size_t taken_{0};
};

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

TYPED_TEST(FlusherTest, TellsInsertsUpdatesAndDeletionsApart) {
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

TYPED_TEST(FlusherTest, ARefusedCommitTellsEveryRequestAndKeepsEverything) {
    this->target_.add("a");
    this->target_.add("b", ItemOp::Deletion);
    this->target_.stateChange = true;
    this->store_.failCommits = 1;
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Failed);
    EXPECT_THAT(this->target_.log, ElementsAre("failed"));
    EXPECT_TRUE(this->target_.stateChange);
    EXPECT_EQ(this->flusher_.stats().failedItems, 2U);
    EXPECT_EQ(this->flusher_.stats().persisted, 0U);
    EXPECT_EQ(this->target_.queue.size(), 2U);
    EXPECT_TRUE(this->store_.docs.empty());
    EXPECT_EQ(this->flusher_.flushVBucket(this->target_), FlushResult::Flushed);
    EXPECT_EQ(this->store_.docs.size(), 2U);
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

TYPED_TEST(FlusherTest, TheItemsLiveUntilTheirCallbacks) {
    // The batch may be freed before the commit; the requests must keep what the callbacks need.
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

/// The same random history through every choice gives this one set of documents (compared with a
/// model).
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

class FlusherTaskTest : public testing::Test {
  protected:
    FlusherTaskTest() {
        for (uint16_t id = 0; id < 8; ++id) {
            targets_.push_back(std::make_unique<ScriptedTarget>(Vbid{id}));
        }
    }
    TaskResult run(TaskTime now) {
        return flusher_.run(now,
                            [this](Vbid vbid) -> FlushTarget& { return *targets_[vbid.get()]; });
    }
    bool write(uint16_t id) {
        targets_[id]->add("k" + std::to_string(targets_[id]->high));
        return flusher_.notify(Vbid{id});
    }
    MemoryStore store_;
    std::vector<std::unique_ptr<ScriptedTarget>> targets_;
    Flusher flusher_{
            store_, 8, {.batchItems = 2, .retryDelay = 1s, .interval = 20ms, .vbucketsPerRun = 2}};
};

TEST_F(FlusherTaskTest, OnlyTheFirstNotificationWakes) {
    EXPECT_TRUE(write(1));
    EXPECT_FALSE(flusher_.notify(Vbid{1}));
    EXPECT_FALSE(write(2));
    EXPECT_EQ(flusher_.dirtyVBuckets(), 2U);
    EXPECT_EQ(run(0ms).delay(), kNever);
    EXPECT_TRUE(targets_[1]->queue.empty() && targets_[2]->queue.empty());
    EXPECT_TRUE(write(2));
}

TEST_F(FlusherTaskTest, APassIsNotBegunBeforeItsTime) {
    write(0);
    EXPECT_EQ(run(100ms).delay(), kNever);
    write(0);
    EXPECT_EQ(run(105ms).delay(), TaskTime(15ms));
    EXPECT_EQ(targets_[0]->queue.size(), 1U);
    EXPECT_EQ(run(120ms).delay(), kNever);
    EXPECT_EQ(targets_[0]->queue.size(), 0U);
}

TEST_F(FlusherTaskTest, APartOfAWriteHasAtMostSoManyBytesAndTheRestComesInTheNextPass) {
    ScriptedTarget target{Vbid{0}};
    Flusher flusher{store_, 1, {.batchBytes = 2500, .interval = 20ms}};
    for (int i = 0; i < 5; ++i) {
        target.add("k" + std::to_string(i), ItemOp::Mutation, std::string(1000, 'x'));
    }
    flusher.notify(Vbid{0});
    const auto targetOf = [&target](Vbid) -> FlushTarget& { return target; };
    for (const auto& [at, left, delay] :
         {std::tuple(0ms, 3U, TaskTime(20ms)), std::tuple(20ms, 1U, TaskTime(20ms)),
          std::tuple(40ms, 0U, kNever)}) {
        EXPECT_EQ(flusher.run(at, targetOf).delay(), delay);
        EXPECT_EQ(target.queue.size(), left);
    }
}

TEST_F(FlusherTaskTest, ManyVBucketsTakeSeveralRunsOfOnePass) {
    for (uint16_t id = 0; id < 5; ++id) {
        write(id);
    }
    EXPECT_EQ(run(0ms).delay(), TaskTime::zero());
    write(0);  // flushed already: waits for the next pass
    EXPECT_EQ(run(1ms).delay(), TaskTime::zero());
    EXPECT_EQ(run(2ms).delay(), TaskTime(20ms));
    EXPECT_EQ(targets_[0]->queue.size(), 1U);
    EXPECT_EQ(targets_[4]->queue.size(), 0U);
}

TEST_F(FlusherTaskTest, AFailureWaitsAndForgetsNobody) {
    for (uint16_t id = 0; id < 3; ++id) {
        write(id);
    }
    store_.failCommits = 1;
    EXPECT_EQ(run(0ms).delay(), TaskTime(1s));
    EXPECT_EQ(flusher_.dirtyVBuckets(), 3U);
    EXPECT_EQ(run(500ms).delay(), TaskTime(500ms));  // a notification woke it too early
    EXPECT_EQ(run(1s).delay(), TaskTime::zero());
    EXPECT_EQ(run(1001ms).delay(), kNever);
    EXPECT_EQ(flusher_.dirtyVBuckets(), 0U);
}

TEST_F(FlusherTaskTest, WhatTheBatchLimitLeftComesNext) {
    for (int i = 0; i < 5; ++i) {
        write(3);
    }
    EXPECT_FALSE(run(0ms).delay() == kNever);
    EXPECT_EQ(targets_[3]->queue.size(), 3U);
    EXPECT_TRUE(
            flusher_.flushAll([this](Vbid vbid) -> FlushTarget& { return *targets_[vbid.get()]; }));
    EXPECT_EQ(targets_[3]->queue.size(), 0U);
}

/// A run that takes more vBuckets than there are.
class FlusherGroupTest : public FlusherTaskTest {
  protected:
    FlusherGroupTest() {
        for (uint16_t id = 0; id < 4; ++id) {
            targets_[id]->add("k" + std::to_string(id));
            flusher_.notify(Vbid{id});
        }
    }
    bool flush() {
        return flusher_.flushAll(
                [this](Vbid vbid) -> FlushTarget& { return *targets_[vbid.get()]; });
    }
    Flusher flusher_{store_, 8, {}};
};

TEST_F(FlusherGroupTest, OneWriteStoresManyVBuckets) {
    targets_[1]->queue.clear();  // clean after all
    targets_[2]->queue.clear();  // nothing but a state, which is stored by itself
    targets_[2]->stateChange = true;
    EXPECT_TRUE(flush());
    EXPECT_EQ(store_.commits, 1);
    ASSERT_EQ(store_.states.size(), 3U);
    EXPECT_EQ(store_.states[1].highSeqno, Seqno{1});
    EXPECT_EQ(store_.states[2].highSeqno, Seqno{1});
    EXPECT_EQ(store_.docs.size(), 2U);
    EXPECT_THAT(targets_[0]->log, ElementsAre("set k0", "persisted"));
    EXPECT_THAT(targets_[3]->log, ElementsAre("set k3", "persisted"));
    EXPECT_TRUE(targets_[1]->log.empty() && targets_[2]->log.empty());
    EXPECT_EQ(flusher_.stats().flushes, 3U);
}

TEST_F(FlusherGroupTest, ARefusedWriteLeavesAllOfItsVBucketsDirty) {
    store_.failCommits = 1;
    EXPECT_FALSE(flush());
    for (uint16_t id = 0; id < 4; ++id) {
        EXPECT_THAT(targets_[id]->log, ElementsAre("failed"));
        EXPECT_TRUE(targets_[id]->lockForFlush().owns_lock()) << "nobody else holds it";
    }
    EXPECT_TRUE(store_.docs.empty());
    EXPECT_EQ(flusher_.dirtyVBuckets(), 4U);
    EXPECT_EQ(flusher_.stats().failedFlushes, 4U);
    EXPECT_EQ(flusher_.stats().failedItems, 4U);
    EXPECT_TRUE(flush());
    EXPECT_EQ(store_.docs.size(), 4U);
    EXPECT_EQ(flusher_.dirtyVBuckets(), 0U);
}

TEST_F(FlusherGroupTest, AReadErrorIsTheErrorOfItsVBucketAlone) {
    store_.throwAtPut = 2;
    EXPECT_FALSE(flush());
    EXPECT_EQ(store_.abandoned, 1);
    EXPECT_EQ(store_.commits, 2) << "vBucket 0, then 2 and 3";
    EXPECT_THAT(targets_[0]->log, ElementsAre("failed", "set k0", "persisted"));
    EXPECT_THAT(targets_[1]->log, ElementsAre("failed"));
    EXPECT_THAT(targets_[2]->log, ElementsAre("set k2", "persisted"));
    EXPECT_EQ(flusher_.dirtyVBuckets(), 1U);
    EXPECT_EQ(flusher_.stats().failedFlushes, 1U);
    EXPECT_TRUE(flush());
    EXPECT_EQ(store_.docs.size(), 4U);
    EXPECT_EQ(store_.commits, 3);
}

TEST_F(FlusherGroupTest, VBucketsThatCannotBeReadKeepNobodyFromTheDisk) {
    store_.unreadable = {0, 1, 3};
    targets_[2]->stateChange = true;
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(flush());
    }
    EXPECT_EQ(store_.docs.size(), 1U);
    EXPECT_TRUE(store_.docs.contains("k2"));
    EXPECT_EQ(flusher_.dirtyVBuckets(), 3U);
    for (uint16_t id = 0; id < 4; ++id) {
        EXPECT_TRUE(targets_[id]->lockForFlush().owns_lock()) << "nobody else holds it";
    }
}

TEST_F(FlusherGroupTest, AWriteThatIsLargeEnoughGetsNoLonger) {
    targets_[1]->add("large", ItemOp::Mutation, std::string(1 << 20, 'v'));
    EXPECT_TRUE(flush());
    EXPECT_EQ(store_.commits, 2);
    EXPECT_EQ(store_.docs.size(), 5U);
}

TEST_F(FlusherGroupTest, AWriteHasAtMostSoManyVBuckets) {
    std::vector<std::unique_ptr<ScriptedTarget>> targets;
    Flusher flusher(store_, 100, {.vbucketsPerRun = 100});
    for (uint16_t id = 0; id < 100; ++id) {
        targets.push_back(std::make_unique<ScriptedTarget>(Vbid{id}));
        targets.back()->add("key" + std::to_string(id));
        flusher.notify(Vbid{id});
    }
    const auto targetOf = [&targets](Vbid vbid) -> FlushTarget& { return *targets[vbid.get()]; };
    EXPECT_EQ(flusher.run(0ms, targetOf).delay(), kNever);
    EXPECT_EQ(store_.commits, 4);
    EXPECT_EQ(store_.docs.size(), 100U);
}

TEST_F(FlusherGroupTest, NobodyWaitsForAVBucketThatWaitsForAnother) {
    targets_[2]->onWait = [this] {
        EXPECT_EQ(store_.commits, 1) << "what was taken before is stored";
        EXPECT_TRUE(targets_[0]->lockForFlush().owns_lock());
    };
    EXPECT_TRUE(flush());
    EXPECT_FALSE(targets_[2]->onWait) << "it was waited for";
    EXPECT_EQ(store_.commits, 2);
    EXPECT_EQ(store_.docs.size(), 4U);
}

TEST_F(FlusherGroupTest, WhatComesWhileAWriteIsMadeIsStoredByTheNext) {
    store_.onCommit = [this] {
        if (store_.commits == 1) {
            targets_[0]->add("later");
            flusher_.notify(Vbid{0});
        }
    };
    EXPECT_TRUE(flush());
    EXPECT_EQ(store_.commits, 2);
    EXPECT_TRUE(store_.docs.contains("later"));
}

/// Both ways, for few items and for many: the newest of each key stays, whatever the order.
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

TEST(DirtyQueueTest, HoldsEachVBucketOnceAndWraps) {
    DirtyQueue queue(3);
    Vbid vbid;
    for (int round = 0; round < 5; ++round) {
        EXPECT_TRUE(queue.push(Vbid{2}));
        EXPECT_FALSE(queue.push(Vbid{2}));
        EXPECT_FALSE(queue.push(Vbid{0}));
        EXPECT_FALSE(queue.push(Vbid{1}));
        EXPECT_EQ(queue.size(), 3U);
        for (const uint16_t expected : std::initializer_list<uint16_t>{2, 0, 1}) {
            ASSERT_TRUE(queue.pop(vbid));
            EXPECT_EQ(vbid, Vbid{expected});
        }
        EXPECT_FALSE(queue.pop(vbid));
    }
}

TEST(FlushPolicyTest, TheSelectedPoliciesAreTheBuildsSwitches) {
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Callback, options::SelectedFlushCallback>));
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Ids, options::SelectedFlushIds>));
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Free, options::SelectedFlushFree>));
    EXPECT_TRUE((std::is_same_v<Flusher::Options::Dedup, options::SelectedFlushDedup>));
    // What the callback switch is about: a request is an item, or an item and a function object.
    EXPECT_EQ(sizeof(TransactionCallback::Request), sizeof(ItemPtr));
    EXPECT_EQ(sizeof(ItemCallback::Request),
              sizeof(ItemPtr) + sizeof(std::function<void()>) + sizeof(size_t));
}

}  // namespace
}  // namespace kv
