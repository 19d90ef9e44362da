#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bucket/persistent_bucket_fixture.h"
#include "executor/thread_executor.h"
#include "persistence/full_disk.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

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

TEST_F(PersistentBucketTest, AHashTableGrowsWithTheDocumentsThatAreLoaded) {
    constexpr int kDocuments = 20'000;
    open(fake_);
    for (int i = 0; i < kDocuments; ++i) {
        ASSERT_TRUE(set(std::to_string(i), "v").ok());
    }
    fake_.advance(1s);
    close();
    const HashTable& table = open(fake_).vbucket(Vbid{0}).hashTable();
    EXPECT_EQ(warmup_.documents, kDocuments);
    EXPECT_GT(table.size(), kDocuments / 3) << "each document takes longer than the one before";
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
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().uuid(), uuid);  // the same history continues
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).highSeqno(), Seqno{3});
    EXPECT_EQ(bucket_->itemsToPersist(), 0U);
    EXPECT_GT(bucket_->store(Vbid{0}, "next", StoreMode::Set, "v", {}, OpTime::now()).cas,
              written.cas);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).highSeqno(), Seqno{4});
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

TEST_F(PersistentBucketTest, AStopWaitsForAStoreThatRecovers) {
    const auto faults = useFaultyStores();
    persistence_.stopPatience = 5min;
    open(fake_);
    set("a", "1");
    faults->failCommits = 5;
    EXPECT_TRUE(bucket_->persistAll());
    close();
    open(fake_);
    EXPECT_EQ(get("a"), "1");
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
    close();  // as a crash: stored data is on the disk, nothing else
    open(fake_);
    EXPECT_EQ(bucket_->stats().items, 0U);
    for (size_t i = 0; i < 3; ++i) {
        disk.full = i == 1;
        EXPECT_TRUE(set("after" + std::to_string(i), value).ok());
        fake_.advance(1s);
    }
    disk.full = false;
    // RocksDB checks for free space again every few seconds of its own clock.
    const auto limit = std::chrono::steady_clock::now() + 5min;
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

TEST_F(PersistentBucketTest, AStoreThatCannotSyncDoesNotKeepOthersFromSyncing) {
    const auto faults = useFaultyStores();
    persistence_.syncInterval = 500ms;
    open(fake_);
    faults->failSyncs = 1;  // of the first shard; the second one is synced all the same
    while (faults->failSyncs != 0) {
        fake_.advance(500ms);
    }
    EXPECT_EQ(bucket_->persistenceStats().store.syncs, 1U);
}

TEST_F(PersistentBucketTest, AWarmUpThatExceedsTheQuotaIsReported) {
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

/// Writers, flushers, the checkpoint remover and cursors run at the same time; afterwards
/// everything must be on disk.
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
    // Every live document in memory is on disk, and nothing else.
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
