#include "bucket/persistent_bucket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "executor/fake_executor.h"
#include "executor/thread_executor.h"
#include "persistence/faulty_store.h"
#include "persistence/full_disk.h"
#include "persistence/power_cut_store.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

class PersistentBucketTest : public testing::Test {
  protected:
    PersistentBucketTest() {
        config_.vbuckets = 8;
        persistence_.dataDir = dir_.path();
        persistence_.rocks.writeBufferBytes = 1 << 20;
        persistence_.rocks.blockCacheBytes = 1 << 20;
    }
    ~PersistentBucketTest() override { bucket_.reset(); }

    std::shared_ptr<StoreFaults> useFaultyStores() {
        auto faults = std::make_shared<StoreFaults>();
        factory_ = [this, faults](const std::string& path) {
            return std::make_unique<FaultyStore>(
                    std::make_unique<RocksStore>(path, persistence_.rocks), faults);
        };
        return faults;
    }
    PersistentBucket& open(Executor& executor) {
        bucket_ = std::make_unique<PersistentBucket>(config_, persistence_, executor, factory_);
        warmup_ = bucket_->warmUp();
        for (uint16_t id = 0; id < config_.vbuckets; ++id) {
            if (!bucket_->isStored(Vbid{id})) {
                bucket_->setVBucketState(Vbid{id}, VbState::Active, OpTime::now());
            }
        }
        bucket_->startFlushing();
        return *bucket_;
    }
    void close() { bucket_.reset(); }
    OpResult set(std::string_view key, std::string_view value, Vbid vbid = Vbid{0}) {
        const BucketMemoryGuard guard(bucket_->memory());
        return bucket_->store(vbid, key, StoreMode::Set, value, {.flags = 7, .datatype = 1},
                              OpTime::now());
    }
    std::string get(std::string_view key, Vbid vbid = Vbid{0}) {
        const BucketMemoryGuard guard(bucket_->memory());
        const OpResult result = bucket_->get(vbid, key, OpTime::now());
        return result.ok() ? std::string(result.value.view())
                           : "[" + std::string(toString(result.status)) + "]";
    }

    TempDir dir_;
    BucketConfig config_;
    PersistenceConfig persistence_;
    PersistentBucket::StoreFactory factory_;
    FakeExecutor fake_;
    std::unique_ptr<PersistentBucket> bucket_;
    WarmupResult warmup_;
};

TEST_F(PersistentBucketTest, TheQueueIsEmptyExactlyWhenEverythingIsStored) {
    PersistentBucket& bucket = open(fake_);
    fake_.advance(1s);
    EXPECT_EQ(bucket.itemsToPersist(), 0U);
    set("a", "1");
    set("b", "2", Vbid{1});
    set("a", "3");
    EXPECT_EQ(bucket.itemsToPersist(), 2U);  // the first version of "a" will never be stored
    EXPECT_EQ(bucket.persistedSeqno(Vbid{0}), Seqno{0});
    fake_.advance(1s);
    EXPECT_EQ(bucket.itemsToPersist(), 0U);
    EXPECT_EQ(bucket.persistedSeqno(Vbid{0}), Seqno{2});
    const PersistenceStats stats = bucket.persistenceStats();
    EXPECT_EQ(stats.totalPersisted, 2U);
    EXPECT_EQ(stats.inserts, 2U);
    EXPECT_EQ(stats.totalEnqueued, 2U);
    std::string stored;
    EXPECT_TRUE(bucket.storeOf(Vbid{0}).get(Vbid{0}, "a",
                                            [&](const StoredDoc& doc) { stored = doc.value; }));
    EXPECT_EQ(stored, "3");
}

TEST_F(PersistentBucketTest, AStateIsToBePersistedUntilItIsStored) {
    const auto faults = useFaultyStores();
    PersistentBucket& bucket = open(fake_);
    EXPECT_EQ(bucket.statesToPersist(), config_.vbuckets);
    fake_.advance(1s);
    EXPECT_EQ(bucket.statesToPersist(), 0U);
    bucket.setVBucketState(Vbid{1}, VbState::Replica, OpTime::now());
    bucket.setVBucketState(Vbid{1}, VbState::Active, OpTime::now());
    EXPECT_EQ(bucket.statesToPersist(), 1U) << "once, however often it changed";
    faults->failStates = 1;
    fake_.runDue();
    EXPECT_EQ(bucket.statesToPersist(), 1U) << "the store refused it";
    fake_.advance(3s);
    EXPECT_EQ(bucket.statesToPersist(), 0U);
    bucket.setVBucketState(Vbid{1}, VbState::Replica, OpTime::now());
    set("a", "with documents of another vBucket, and of its own");
    fake_.advance(1s);
    EXPECT_EQ(bucket.statesToPersist(), 0U);
    close();  // as a crash
    PersistentBucket& again = open(fake_);
    EXPECT_EQ(again.vbucket(Vbid{1}).state(), VbState::Replica);
    fake_.advance(1s);
}

TEST_F(PersistentBucketTest, DocumentsComeBackAfterACleanStop) {
    open(fake_);
    const OpResult written = set("kept", "value");
    set("gone", "value");
    const VbUuid uuid = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
    {
        const BucketMemoryGuard guard(bucket_->memory());
        EXPECT_TRUE(bucket_->remove(Vbid{0}, "gone", {}, OpTime::now()).ok());
    }
    EXPECT_TRUE(bucket_->persistAll());
    close();
    open(fake_);
    EXPECT_TRUE(warmup_.clean);
    EXPECT_EQ(warmup_.documents, 1U);
    EXPECT_EQ(warmup_.tombstones, 1U);
    EXPECT_EQ(warmup_.vbuckets, 8U);
    EXPECT_EQ(get("kept"), "value");
    EXPECT_EQ(get("gone"), "[key not found]");
    const BucketMemoryGuard guard(bucket_->memory());
    const OpResult meta = bucket_->getMeta(Vbid{0}, "kept", OpTime::now());
    EXPECT_EQ(meta.cas, written.cas);
    EXPECT_EQ(meta.seqno, written.seqno);
    EXPECT_EQ(meta.flags, 7U);
    EXPECT_EQ(meta.datatype, 1U);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().uuid(), uuid);  // the same history goes on
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).highSeqno(), Seqno{3});
    EXPECT_EQ(bucket_->itemsToPersist(), 0U);
    EXPECT_GT(bucket_->store(Vbid{0}, "next", StoreMode::Set, "v", {}, OpTime::now()).cas,
              written.cas);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).highSeqno(), Seqno{4});
}

TEST_F(PersistentBucketTest, ACrashBeginsANewHistory) {
    open(fake_);
    set("a", "1");
    fake_.advance(1s);
    set("b", "never stored");
    const VbUuid uuid = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
    close();
    open(fake_);
    EXPECT_FALSE(warmup_.clean);
    EXPECT_EQ(get("a"), "1");
    EXPECT_EQ(get("b"), "[key not found]");
    const auto log = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    ASSERT_EQ(log.size(), 2U);
    EXPECT_NE(log[0].uuid, uuid);
    EXPECT_EQ(log[0].seqno, Seqno{1});
    EXPECT_EQ(log[1].uuid, uuid);
    // The new history is stored without any mutation.
    EXPECT_TRUE(bucket_->persistAll());
    close();
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().entries(), log);
}

TEST_F(PersistentBucketTest, ARefusedTransactionIsTriedAgain) {
    const auto faults = useFaultyStores();
    PersistentBucket& bucket = open(fake_);
    fake_.advance(1s);
    faults->failCommits = 2;
    set("a", "1");
    set("b", "1");
    fake_.runDue();
    EXPECT_EQ(bucket.itemsToPersist(), 2U);
    set("a", "2");  // while the old version waits for its retry
    EXPECT_EQ(bucket.itemsToPersist(), 2U);
    fake_.advance(500ms);
    EXPECT_EQ(bucket.itemsToPersist(), 2U);  // not before the retry delay
    fake_.advance(3s);
    EXPECT_EQ(bucket.itemsToPersist(), 0U);
    const auto stats = bucket.persistenceStats();
    EXPECT_EQ(stats.failedFlushes, 2U);
    EXPECT_EQ(stats.failedItems, 4U);
    EXPECT_EQ(stats.totalPersisted, 2U);
    std::string stored;
    EXPECT_TRUE(bucket.storeOf(Vbid{0}).get(Vbid{0}, "a",
                                            [&](const StoredDoc& doc) { stored = doc.value; }));
    EXPECT_EQ(stored, "2");
    faults->failCommits = 1000;
    set("c", "1");
    EXPECT_FALSE(bucket.persistAll());
    faults->failCommits = 0;
}

TEST_F(PersistentBucketTest, AFullDiskIsATemporaryFailureAndLosesNothing) {
    FullDisk disk;
    persistence_.rocks.env = &disk;
    config_.quotaBytes = 8 << 20;
    PersistentBucket& bucket = open(fake_);
    fake_.advance(1s);
    disk.full = true;
    const std::string value(16 << 10, 'v');
    std::vector<std::string> taken;
    OpStatus refused = OpStatus::Ok;
    while (refused == OpStatus::Ok && taken.size() < 1000) {
        const std::string key = "k" + std::to_string(taken.size());
        refused = set(key, value).status;
        if (refused == OpStatus::Ok) {
            taken.push_back(key);
        }
        fake_.advance(100ms);
    }
    EXPECT_EQ(refused, OpStatus::TmpFail) << "memory comes back with the disk's space";
    EXPECT_EQ(bucket.itemsToPersist(), taken.size());
    EXPECT_GT(bucket.persistenceStats().failedFlushes, 0U);
    EXPECT_FALSE(bucket.persistAll());
    bucket.startFlushing();

    disk.full = false;
    close();  // as a crash: what was stored is on the disk, no more
    open(fake_);
    EXPECT_EQ(bucket_->stats().items, 0U);
    for (size_t i = 0; i < 3; ++i) {
        disk.full = i == 1;
        EXPECT_TRUE(set("after" + std::to_string(i), value).ok());
        fake_.advance(1s);
    }
    disk.full = false;
    // RocksDB looks for room again every few seconds of its own clock.
    const auto limit = std::chrono::steady_clock::now() + 1min;
    while (bucket_->itemsToPersist() != 0 && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(5ms);
        fake_.advance(1s);
    }
    EXPECT_EQ(bucket_->itemsToPersist(), 0U) << "without a restart";
    ASSERT_TRUE(bucket_->persistAll());
    close();
    open(fake_);
    EXPECT_EQ(bucket_->stats().items, 3U);
    EXPECT_EQ(get("after1"), value);
    close();
}

TEST_F(PersistentBucketTest, AReadErrorInAFlushLosesNothing) {
    const auto faults = useFaultyStores();
    PersistentBucket& bucket = open(fake_);
    fake_.advance(1s);
    for (int i = 0; i < 10; ++i) {
        set("key" + std::to_string(i), "v");
    }
    faults->throwAtPut = 5;
    fake_.runDue();
    EXPECT_EQ(bucket.itemsToPersist(), 10U);
    EXPECT_EQ(bucket.storeOf(Vbid{0}).countLive(Vbid{0}), 0U);
    fake_.advance(2s);
    EXPECT_EQ(bucket.itemsToPersist(), 0U);
    EXPECT_EQ(bucket.storeOf(Vbid{0}).countLive(Vbid{0}), 10U);
}

TEST_F(PersistentBucketTest, AnotherLayoutIsRefused) {
    open(fake_);
    close();
    persistence_.shards = 3;
    EXPECT_THROW(open(fake_), StoreError);
    persistence_.shards = 2;
    config_.vbuckets = 16;
    EXPECT_THROW(open(fake_), StoreError);
}

TEST_F(PersistentBucketTest, TwoEnginesCannotShareADirectory) {
    open(fake_);
    EXPECT_THROW(PersistentBucket(config_, persistence_, fake_), StoreError);
}

TEST_F(PersistentBucketTest, ADeletedVBucketIsGoneFromMemoryAndDisk) {
    PersistentBucket& bucket = open(fake_);
    for (int i = 0; i < 100; ++i) {
        set("k" + std::to_string(i), "v");
    }
    set("other", "v", Vbid{2});
    fake_.advance(1s);
    set("young", "v");  // in memory only
    const OpTime now = OpTime::now();
    EXPECT_EQ(bucket.deleteVBucket(Vbid{0}, now), OpStatus::Invalid) << "it is active";
    EXPECT_EQ(bucket.deleteVBucket(Vbid{99}, now), OpStatus::NotMyVbucket);
    bucket.setVBucketState(Vbid{0}, VbState::Dead, now);
    const uint64_t clears = bucket.vbucket(Vbid{0}).clears();
    EXPECT_EQ(bucket.deleteVBucket(Vbid{0}, now), OpStatus::Ok);
    EXPECT_EQ(bucket.deleteVBucket(Vbid{0}, now), OpStatus::Ok);
    EXPECT_GT(bucket.vbucket(Vbid{0}).clears(), clears) << "streams notice";
    EXPECT_EQ(bucket.stats().storedValues, 1U);
    EXPECT_EQ(bucket.storeOf(Vbid{0}).countLive(Vbid{0}), 0U);
    EXPECT_TRUE(bucket.vbucket(Vbid{0}).failoverLog().entries().empty());
    fake_.advance(1s);
    EXPECT_EQ(bucket.itemsToPersist(), 0U);
    close();
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).state(), VbState::Dead) << "it stays away";
    EXPECT_EQ(get("other", Vbid{2}), "v");
    bucket_->setVBucketState(Vbid{0}, VbState::Active, now);
    EXPECT_EQ(get("k1"), "[key not found]");
    EXPECT_EQ(set("k1", "new").seqno, Seqno{1});
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().entries().size(), 1U);
}

TEST_F(PersistentBucketTest, ADeletedVBucketStaysAwayThoughTheProcessDiesAtOnce) {
    PersistentBucket& bucket = open(fake_);
    set("k", "v");
    fake_.advance(1s);
    bucket.setVBucketState(Vbid{0}, VbState::Dead, OpTime::now());
    EXPECT_EQ(bucket.deleteVBucket(Vbid{0}, OpTime::now()), OpStatus::Ok);
    close();
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).state(), VbState::Dead);
    EXPECT_TRUE(bucket_->vbucket(Vbid{0}).failoverLog().entries().empty());
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
}

TEST_F(PersistentBucketTest, AReplicaThatRolledBackStaysOneThoughTheProcessDiesAtOnce) {
    open(fake_);
    const OpTime now = OpTime::now();
    set("k", "v");
    set("l", "v", Vbid{1});
    fake_.advance(1s);  // what is stored now may be rolled back to
    set("m", "v", Vbid{1});
    for (const Vbid vbid : {Vbid{0}, Vbid{1}}) {
        bucket_->setVBucketState(vbid, VbState::Replica, now);
    }
    fake_.advance(1s);
    EXPECT_EQ(bucket_->rollBackReplica(Vbid{0}, bucket_->vbucket(Vbid{0}).term(), Seqno{0}, now),
              Bucket::RollBack::Done);
    EXPECT_EQ(bucket_->rollBackReplica(Vbid{1}, bucket_->vbucket(Vbid{1}).term(), Seqno{1}, now),
              Bucket::RollBack::Done);
    close();
    open(fake_);
    for (const Vbid vbid : {Vbid{0}, Vbid{1}}) {
        EXPECT_EQ(bucket_->vbucket(vbid).state(), VbState::Replica);
        EXPECT_EQ(bucket_->vbucket(vbid).highSeqno(), Seqno{vbid.get()});
        EXPECT_EQ(bucket_->vbucket(vbid).failoverLog().entries().size(), 1U);
    }
}

/// After any number of stops, crashes and power cuts: no seqno of a history has two documents.
TEST_F(PersistentBucketTest, NoSeqnoIsUsedTwiceInOneHistoryAfterAPowerCut) {
    PowerCut power;
    factory_ = [&](const std::string& path) {
        return std::make_unique<PowerCutStore>(
                std::make_unique<RocksStore>(path, persistence_.rocks), path, power);
    };
    std::mt19937 random(29);
    std::map<std::pair<uint64_t, uint64_t>, std::string> given;
    for (int life = 0; life < 12; ++life) {
        open(fake_);
        for (int i = 0; i < 20; ++i) {
            const std::string value = std::to_string(life) + ":" + std::to_string(i);
            const OpResult stored = set("k" + std::to_string(random() % 9), value);
            ASSERT_TRUE(stored.ok());
            const auto added = given.try_emplace({stored.vbuuid.get(), stored.seqno.get()}, value);
            EXPECT_TRUE(added.second) << "seqno " << stored.seqno.get() << " in life " << life
                                      << " was that of " << added.first->second;
            if (random() % 4 == 0) {
                fake_.advance(1s);
            }
        }
        if (life % 3 != 2) {
            EXPECT_TRUE(bucket_->persistAll());
        }
        close();
        if (life % 2 == 0) {
            power.strike();
        }
    }
}

TEST_F(PersistentBucketTest, ACleanStopSurvivesAPowerCut) {
    PowerCut power;
    factory_ = [&](const std::string& path) {
        return std::make_unique<PowerCutStore>(
                std::make_unique<RocksStore>(path, persistence_.rocks), path, power);
    };
    open(fake_);
    set("a", "1");
    EXPECT_TRUE(bucket_->persistAll());
    close();
    power.strike();
    open(fake_);
    EXPECT_TRUE(warmup_.clean);
    EXPECT_EQ(get("a"), "1");
}

TEST_F(PersistentBucketTest, WithoutASyncAStopIsNotClean) {
    const auto faults = useFaultyStores();
    open(fake_);
    set("a", "1");
    faults->failSyncs = 1;
    EXPECT_FALSE(bucket_->persistAll());
    close();
    open(fake_);
    EXPECT_FALSE(warmup_.clean);
    EXPECT_EQ(get("a"), "1");
}

TEST_F(PersistentBucketTest, AReplicaWhoseStoreCannotBeReadRollsBackToNothing) {
    const auto faults = useFaultyStores();
    open(fake_);
    for (const char* key : {"a", "b", "c"}) {
        set(key, "1");
        fake_.advance(1s);
    }
    const OpTime now = OpTime::now();
    VBucket& vbucket = bucket_->vbucket(Vbid{0});
    bucket_->setVBucketState(Vbid{0}, VbState::Replica, now);
    ASSERT_EQ(vbucket.highSeqno(), Seqno{3});
    faults->failScans = 1;
    EXPECT_EQ(bucket_->rollBackReplica(Vbid{0}, vbucket.term(), Seqno{2}, now),
              Bucket::RollBack::Done);
    EXPECT_EQ(faults->failScans, 0);
    EXPECT_EQ(vbucket.state(), VbState::Replica) << "it goes on following";
    EXPECT_EQ(vbucket.highSeqno(), Seqno{});
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
}

/// Counts what it is told of.
struct RollBacks final : SeqnoListener {
    void onSeqno(Vbid, Seqno) noexcept override {}
    void onRolledBack(Vbid) noexcept override { ++count; }
    int count{0};
};

/// The store gives up what is above the seqno, and then it can neither be read nor emptied.
TEST_F(PersistentBucketTest, AReplicaWhoseDiskFailsInARollBackIsEmpty) {
    const auto faults = useFaultyStores();
    open(fake_);
    for (const char* key : {"a", "b", "c"}) {
        set(key, "1");
        fake_.advance(1s);
    }
    const OpTime now = OpTime::now();
    bucket_->setVBucketState(Vbid{0}, VbState::Replica, now);
    VBucket& vbucket = bucket_->vbucket(Vbid{0});
    RollBacks told;
    bucket_->listeners().add(&told);
    faults->failScans = 1;
    faults->failDeletes = 2;
    EXPECT_EQ(bucket_->rollBackReplica(Vbid{0}, bucket_->vbucket(Vbid{0}).term(), Seqno{2}, now),
              Bucket::RollBack::Done);
    bucket_->listeners().remove(&told);
    EXPECT_EQ(told.count, 1) << "streams end";
    EXPECT_EQ(vbucket.state(), VbState::Replica);
    EXPECT_EQ(vbucket.highSeqno(), Seqno{0});
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
    EXPECT_EQ(bucket_->persistedSeqno(Vbid{0}), Seqno{0});
    {
        const BucketMemoryGuard guard(bucket_->memory());
        ASSERT_EQ(vbucket.beginReplicated(vbucket.term(), {Seqno{1}, Seqno{1}},
                                          CheckpointType::Memory, now),
                  OpStatus::Ok);
        ASSERT_EQ(vbucket.applyReplicated(vbucket.term(), "d", ItemOp::Mutation,
                                          {.cas = Cas{9}, .seqno = Seqno{1}, .revSeqno = 1},
                                          Blob::create("new"), now),
                  OpStatus::Ok);
    }
    fake_.advance(500ms);
    EXPECT_EQ(bucket_->itemsToPersist(), 1U) << "not before what is there has gone";
    fake_.advance(2s);
    EXPECT_EQ(faults->failDeletes, 0);
    EXPECT_EQ(bucket_->itemsToPersist(), 0U);
    close();
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).highSeqno(), Seqno{1});
    EXPECT_EQ(bucket_->stats().storedValues, 1U);
    bucket_->setVBucketState(Vbid{0}, VbState::Active, now);
    EXPECT_EQ(get("d"), "new");
}

TEST_F(PersistentBucketTest, TheCasOfALockIsNotGivenAgainAfterACrash) {
    open(fake_);
    set("k", "v");
    fake_.advance(1s);
    // Mutations' CAS go on from the last stored one where the clock is behind it.
    const OpTime early = OpTime::fromNanos(1'000'000'000);
    const auto lock = [&] {
        const BucketMemoryGuard guard(bucket_->memory());
        return bucket_->getAndLock(Vbid{0}, "k", 30, early);
    };
    const OpResult before = lock();
    close();
    open(fake_);
    const OpResult after = lock();
    ASSERT_TRUE(before.ok() && after.ok());
    const BucketMemoryGuard guard(bucket_->memory());
    EXPECT_EQ(bucket_->store(Vbid{0}, "k", StoreMode::Set, "x", {.cas = before.cas}, early).status,
              OpStatus::Locked);
}

TEST_F(PersistentBucketTest, TheCasOfALostMutationIsNotGivenAgainAfterACrash) {
    open(fake_);
    // Mutations' CAS go on from the last stored one where the clock is behind it.
    const OpTime early = OpTime::fromNanos(1'000'000'000);
    const auto mutate = [&] {
        const BucketMemoryGuard guard(bucket_->memory());
        return bucket_->store(Vbid{0}, "k", StoreMode::Set, "v", {}, early);
    };
    mutate();
    fake_.advance(1s);
    const OpResult lost = mutate();
    close();
    open(fake_);
    const OpResult after = mutate();
    EXPECT_GT(after.cas, lost.cas) << "equal by chance once in 2^32 times";
}

TEST_F(PersistentBucketTest, TheStoresAreSyncedAtTheirInterval) {
    persistence_.syncInterval = 500ms;
    open(fake_);
    set("a", "1");
    fake_.advance(2s);
    EXPECT_GE(bucket_->persistenceStats().store.syncs, 3U * 2);
    close();
    persistence_.syncInterval = 0ms;
    open(fake_);
    set("a", "1");
    fake_.advance(2s);
    EXPECT_EQ(bucket_->persistenceStats().store.syncs, 0U);
}

TEST_F(PersistentBucketTest, AWarmUpThatDoesNotFitTheQuotaSaysSo) {
    open(fake_);
    for (int i = 0; i < 64; ++i) {
        set("k" + std::to_string(i), std::string(64 << 10, 'x'));
    }
    EXPECT_TRUE(bucket_->persistAll());
    close();
    config_.quotaBytes = 2 << 20;
    EXPECT_THROW(open(fake_), StoreError);
    close();
    config_.quotaBytes = 64 << 20;
    open(fake_);
    EXPECT_EQ(get("k63").size(), size_t{64} << 10);
}

TEST_F(PersistentBucketTest, OldTombstonesLeaveTheDisk) {
    config_.persistentPurgeAgeS = 100;
    PersistentBucket& bucket = open(fake_);
    const auto tombstones = [&] {
        size_t count = 0;
        const auto scan =
                bucket_->storeOf(Vbid{0}).openSeqnoScan(Vbid{0}, Seqno{1}, Seqno{~uint64_t{0}});
        for (StoredDoc doc; scan->next(doc);) {
            count += isDeletion(doc.op) ? 1U : 0U;
        }
        return count;
    };
    OpTime now = OpTime::now();
    const auto remove = [&](const std::string& key) {
        set(key, "1");
        bucket.remove(Vbid{0}, key, {}, now);
    };
    remove("old1");
    fake_.advance(1s);
    remove("old2");
    now = OpTime::fromNanos(now.nanos + 60'000'000'000);
    remove("young");
    fake_.advance(1s);
    EXPECT_EQ(tombstones(), 3U);
    EXPECT_EQ(bucket.purgeTombstones(now), 0U);
    now = OpTime::fromNanos(now.nanos + 41'000'000'000);
    EXPECT_EQ(bucket.purgeTombstones(now), 2U);
    EXPECT_EQ(tombstones(), 1U);
    EXPECT_EQ(bucket.vbucket(Vbid{0}).purgedSeqno(), Seqno{4});
    EXPECT_EQ(bucket.purgeTombstones(now), 0U);
    // The last seqno stays, however old it is.
    now = OpTime::fromNanos(now.nanos + 100'000'000'000);
    EXPECT_EQ(bucket.purgeTombstones(now), 0U);
    EXPECT_EQ(tombstones(), 1U);
    EXPECT_TRUE(bucket.persistAll());
    close();
    open(fake_);
    // What a client must know of them outlives a restart.
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).purgedSeqno(), Seqno{4});
    EXPECT_GE(bucket_->vbucket(Vbid{0}).maxDeletedRev(), 2U);
    EXPECT_FALSE(bucket_->storeOf(Vbid{0}).rollback(Vbid{0}, Seqno{3})) << "a deletion is missing";
    set("old1", "again");
    const BucketMemoryGuard guard(bucket_->memory());
    EXPECT_EQ(bucket_->getMeta(Vbid{0}, "old1", now).number, 5U);
}

TEST_F(PersistentBucketTest, TheTombstoneAtTheLastSeqnoLeavesTheDiskWhenItIsNotTheLastAnyMore) {
    config_.persistentPurgeAgeS = 100;
    PersistentBucket& bucket = open(fake_);
    OpTime now = OpTime::now();
    set("old", "1");
    bucket.remove(Vbid{0}, "old", {}, now);
    fake_.advance(1s);
    now = OpTime::fromNanos(now.nanos + 200'000'000'000);
    EXPECT_EQ(bucket.purgeTombstones(now), 0U) << "the last seqno must stay what it is";
    set("new", "1");
    fake_.advance(1s);
    EXPECT_EQ(bucket.purgeTombstones(now), 1U);
}

TEST_F(PersistentBucketTest, WhatIsNotedOfATombstoneOutlivesFlushAndRestart) {
    PersistentBucket& bucket = open(fake_);
    const OpTime now = OpTime::now();
    set("removed", "1");
    const Cas removed = bucket.remove(Vbid{0}, "removed", {}, now).cas;
    {
        const BucketMemoryGuard guard(bucket.memory());
        bucket.store(Vbid{0}, "expired", StoreMode::Set, "1",
                     {.flags = 3, .exptime = now.seconds - 1}, now);
        EXPECT_EQ(bucket.get(Vbid{0}, "expired", now).status, OpStatus::KeyNotFound);
        bucket.storeVersion(Vbid{0}, "foreign", "",
                            {.deleted = true,
                             .revSeqno = 40,
                             .cas = Cas{50},
                             .flags = 5,
                             .exptime = 1'600'000'000},
                            now);
    }
    const auto expectNoted = [&](const std::string& when) {
        const BucketMemoryGuard guard(bucket_->memory());
        const OpResult one = bucket_->getMeta(Vbid{0}, "removed", now);
        EXPECT_TRUE(one.ok() && one.deleted) << when;
        EXPECT_EQ(one.cas, removed) << when;
        EXPECT_EQ(one.number, 2U) << when;
        EXPECT_EQ(one.exptime, now.seconds) << when;
        EXPECT_EQ(one.seqno, Seqno{2}) << when;
        EXPECT_EQ(one.flags, 7U) << when;
        const OpResult two = bucket_->getMeta(Vbid{0}, "expired", now);
        EXPECT_TRUE(two.ok() && two.deleted) << when;
        EXPECT_EQ(two.exptime, now.seconds) << when;
        EXPECT_EQ(two.flags, 3U) << when;
        const OpResult three = bucket_->getMeta(Vbid{0}, "foreign", now);
        EXPECT_TRUE(three.ok() && three.deleted) << when;
        EXPECT_EQ(three.cas, Cas{50}) << when;
        EXPECT_EQ(three.number, 40U) << when;
        EXPECT_EQ(three.exptime, 1'600'000'000U) << when;
        EXPECT_EQ(bucket_->getMeta(Vbid{0}, "never", now).status, OpStatus::KeyNotFound) << when;
    };
    expectNoted("in memory");
    fake_.advance(1s);
    ASSERT_EQ(bucket.stats().storedValues, 0U);
    expectNoted("on disk");
    ASSERT_TRUE(bucket.persistAll());
    close();
    open(fake_);
    expectNoted("after a restart");
    const ItemMeta meta{.cas = Cas{99}, .seqno = Seqno{99}, .revSeqno = 1};
    bucket_->setVBucketState(Vbid{0}, VbState::Replica, now);
    {
        const BucketMemoryGuard guard(bucket_->memory());
        auto& vbucket = bucket_->vbucket(Vbid{0});
        vbucket.checkpoints().createSnapshot({Seqno{6}, Seqno{99}}, CheckpointType::Memory, false,
                                             now.nanos);
        vbucket.applyReplicated(vbucket.term(), "other", ItemOp::Mutation, meta, Blob::create("v"),
                                now);
    }
    fake_.advance(1s);
    ASSERT_EQ(bucket_->rollBackReplica(Vbid{0}, bucket_->vbucket(Vbid{0}).term(), Seqno{5}, now),
              Bucket::RollBack::Done);
    ASSERT_EQ(bucket_->vbucket(Vbid{0}).highSeqno(), Seqno{5});
    bucket_->setVBucketState(Vbid{0}, VbState::Active, now);
    expectNoted("after a rollback");
}

TEST_F(PersistentBucketTest, AForeignVersionIsComparedWithATombstoneOnDisk) {
    PersistentBucket& bucket = open(fake_);
    const OpTime now = OpTime::now();
    const auto version = [&](uint64_t revision, bool deleted) {
        const BucketMemoryGuard guard(bucket.memory());
        return bucket
                .storeVersion(Vbid{0}, "key", deleted ? "" : "value",
                              {.deleted = deleted, .revSeqno = revision, .cas = Cas{50}}, now)
                .status;
    };
    EXPECT_EQ(version(7, true), OpStatus::Ok);
    fake_.advance(1s);
    ASSERT_EQ(bucket.stats().storedValues, 0U) << "on disk only";
    EXPECT_EQ(version(6, false), OpStatus::KeyExists) << "what was deleted stays deleted";
    EXPECT_EQ(version(8, false), OpStatus::Ok);
    EXPECT_EQ(get("key"), "value");
}

TEST_F(PersistentBucketTest, MemoryComesBackToWhereItWas) {
    config_.checkpoint.maxItems = 10;
    PersistentBucket& bucket = open(fake_);
    fake_.advance(1s);
    const auto settle = [&] {
        fake_.advance(1s);
        bucket.removeClosedCheckpoints(OpTime::fromNanos(OpTime::now().nanos + 10'000'000'000));
        bucket.removeClosedCheckpoints(OpTime::now());
        return bucket.memory().precise();
    };
    const size_t before = settle();
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 200; ++i) {
            set("key" + std::to_string(i), std::string(100, 'v'));
            fake_.runDue();
        }
        for (int i = 0; i < 200; ++i) {
            const BucketMemoryGuard guard(bucket.memory());
            bucket.remove(Vbid{0}, "key" + std::to_string(i), {}, OpTime::now());
        }
    }
    const size_t after = settle();
    EXPECT_LT(after, before + 2048);
    EXPECT_GT(after + 2048, before);
}

/// The same random operations through a bucket that crashes again and again: what was reported
/// stored is there.
TEST_F(PersistentBucketTest, NothingReportedStoredIsEverLost) {
    std::mt19937 random(4711);
    const auto pick = [&](uint32_t below) {
        return std::uniform_int_distribution<uint32_t>(0, below - 1)(random);
    };
    std::map<std::string, std::string> stored;  // at the last moment when the queue was empty
    std::map<std::string, std::string> current;
    config_.checkpoint.maxItems = 7;
    for (int life = 0; life < 15; ++life) {
        open(fake_);
        if (life > 0) {
            for (int i = 0; i < 60; ++i) {
                const std::string key = "key" + std::to_string(i);
                const auto found = stored.find(key);
                EXPECT_EQ(get(key, Vbid{static_cast<uint16_t>(i % 8)}),
                          found != stored.end() ? found->second : "[key not found]");
            }
        }
        current = stored;
        const uint32_t steps = 50 + pick(200);
        for (uint32_t step = 0; step < steps; ++step) {
            const auto number = pick(60);
            const Vbid vbid{static_cast<uint16_t>(number % 8)};
            const std::string key = "key" + std::to_string(number);
            if (pick(3) == 0) {
                const BucketMemoryGuard guard(bucket_->memory());
                bucket_->remove(vbid, key, {}, OpTime::now());
                current.erase(key);
            } else {
                current[key] = "value" + std::to_string(random());
                ASSERT_TRUE(set(key, current[key], vbid).ok());
            }
            if (pick(40) == 0) {
                fake_.advance(1s);
                ASSERT_EQ(bucket_->itemsToPersist(), 0U);
                stored = current;
            }
            if (pick(20) == 0) {
                bucket_->removeClosedCheckpoints(OpTime::now());
            }
        }
        if (pick(2) == 0) {
            ASSERT_TRUE(bucket_->persistAll());
        } else {
            fake_.advance(1s);
        }
        stored = current;
        close();
    }
}

/// Writers, flushers, the checkpoint remover and cursors at the same time; then everything must be
/// on disk.
TEST_F(PersistentBucketTest, WritersFlushersRemoverAndCursorsTogether) {
    config_.checkpoint.maxItems = 20;
    persistence_.flusher.interval = 1ms;
    ThreadExecutor executor({.writers = 2, .auxIo = 1, .nonIo = 1});
    PersistentBucket& bucket = open(executor);
    const TaskPtr remover = executor.schedule("remover", TaskPool::NonIO, TaskTime::zero(), [&] {
        const BucketMemoryGuard guard(bucket.memory());
        bucket.removeClosedCheckpoints(OpTime::now());
        for (uint16_t id = 0; id < 8; ++id) {
            bucket.vbucket(Vbid{id}).checkpoints().removal().expel();
        }
        return TaskResult::after(1ms);
    });
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        const BucketMemoryGuard guard(bucket.memory());
        for (unsigned turn = 0; !stop; ++turn) {
            CheckpointManager& checkpoints =
                    bucket.vbucket(Vbid{static_cast<uint16_t>(turn % 8)}).checkpoints();
            const auto registration =
                    checkpoints.cursors().registerCursor("dcp", checkpoints.highSeqno());
            Seqno last{};
            for (int reads = 0; reads < 5; ++reads) {
                for (const ItemPtr& item :
                     checkpoints.cursors().getItemsForCursor(registration.cursor, 100).items) {
                    EXPECT_GT(item->seqno(), last);
                    last = item->seqno();
                }
                std::this_thread::yield();
            }
            checkpoints.cursors().removeCursor(registration.cursor);
        }
    });
    constexpr int kWriters = 3;
    constexpr int kOps = 4000;
    std::vector<std::thread> writers;
    writers.reserve(kWriters);
    for (int writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([&, writer] {
            const BucketMemoryGuard guard(bucket.memory());
            std::mt19937 random(static_cast<unsigned>(writer));
            for (int op = 0; op < kOps; ++op) {
                const unsigned number = static_cast<unsigned>(random()) % 200;
                const std::string key = std::to_string(writer) + ":" + std::to_string(number);
                const Vbid vbid{static_cast<uint16_t>(number % 8)};
                if (op % 5 == 0) {
                    bucket.remove(vbid, key, {}, OpTime::now());
                } else {
                    ASSERT_TRUE(bucket.store(vbid, key, StoreMode::Set, std::to_string(op), {},
                                             OpTime::now())
                                        .ok());
                }
            }
        });
    }
    for (auto& writer : writers) {
        writer.join();
    }
    stop = true;
    reader.join();
    for (int waited = 0; bucket.itemsToPersist() > 0 && waited < 2000; ++waited) {
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_EQ(bucket.itemsToPersist(), 0U);
    executor.cancel(remover);
    // Every live document in memory is on disk, and nothing else is.
    const size_t items = bucket.stats().items;
    size_t live = 0;
    for (uint16_t id = 0; id < 8; ++id) {
        live += bucket.storeOf(Vbid{id}).countLive(Vbid{id});
        EXPECT_EQ(bucket.persistedSeqno(Vbid{id}), bucket.vbucket(Vbid{id}).highSeqno());
    }
    EXPECT_EQ(live, items);
    EXPECT_EQ(bucket.stats().tombstones, 0U);
    close();
    FakeExecutor again;
    open(again);
    EXPECT_EQ(bucket_->stats().items, items);
    close();
}

}  // namespace
}  // namespace kv
