// Stops that are not clean: what is lost, what is kept, and that no seqno of a history is used
// twice.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "bucket/persistent_bucket_fixture.h"
#include "persistence/power_cut_store.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

using PersistentBucketCrashTest = PersistentBucketTest;

TEST_F(PersistentBucketCrashTest, ACrashBeginsANewHistory) {
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

TEST_F(PersistentBucketCrashTest, ARolledBackReplicaStaysAReplicaAfterAnImmediateCrash) {
    open(fake_);
    const OpTime now = OpTime::now();
    set("k", "v");
    set("l", "v", Vbid{1});
    fake_.advance(1s);  // a rollback may go back to what is stored now
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

/// After any number of stops, crashes and power cuts, no seqno of a history has two documents.
TEST_F(PersistentBucketCrashTest, NoSeqnoIsUsedTwiceInOneHistoryAfterAPowerCut) {
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

TEST_F(PersistentBucketCrashTest, ACleanStopSurvivesAPowerCut) {
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

TEST_F(PersistentBucketCrashTest, WithoutASyncAStopIsNotClean) {
    const auto faults = useFaultyStores();
    open(fake_);
    set("a", "1");
    faults->failSyncs = 100;
    EXPECT_FALSE(bucket_->persistAll());
    close();
    open(fake_);
    EXPECT_FALSE(warmup_.clean);
    EXPECT_EQ(get("a"), "1");
}

TEST_F(PersistentBucketCrashTest, AReplicaWhoseStoreCannotBeReadRollsBackToNothing) {
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
    EXPECT_EQ(vbucket.state(), VbState::Replica) << "it continues as a replica";
    EXPECT_EQ(vbucket.highSeqno(), Seqno{});
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
}

/// Counts its notifications.
struct RollBacks final : SeqnoListener {
    void onSeqno(Vbid, Seqno) noexcept override {}
    void onRolledBack(Vbid) noexcept override { ++count; }
    int count{0};
};

/// The store discards what is above the seqno, and then it can neither be read nor emptied.
TEST_F(PersistentBucketCrashTest, AReplicaWhoseDiskFailsInARollBackIsEmpty) {
    const auto faults = useFaultyStores();
    open(fake_);
    for (const char* key : {"a", "b", "c"}) {
        set(key, "1");
        fake_.advance(1s);
    }
    const OpTime now = OpTime::now();
    bucket_->setVBucketState(Vbid{0}, VbState::Replica, now);
    VBucket& vbucket = bucket_->vbucket(Vbid{0});
    RollBacks rollBacks;
    bucket_->listeners().add(&rollBacks);
    faults->failScans = 1;
    faults->failDeletes = 2;
    EXPECT_EQ(bucket_->rollBackReplica(Vbid{0}, bucket_->vbucket(Vbid{0}).term(), Seqno{2}, now),
              Bucket::RollBack::Done);
    bucket_->listeners().remove(&rollBacks);
    EXPECT_EQ(rollBacks.count, 1) << "streams end";
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

TEST_F(PersistentBucketCrashTest, TheCasOfALockIsNotAssignedAgainAfterACrash) {
    open(fake_);
    set("k", "v");
    fake_.advance(1s);
    // The CAS of mutations continue from the last stored one if the clock is behind it.
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

TEST_F(PersistentBucketCrashTest, TheCasOfALostMutationIsNotAssignedAgainAfterACrash) {
    open(fake_);
    // The CAS of mutations continue from the last stored one if the clock is behind it.
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

/// The same random operations through a bucket that crashes repeatedly: everything that was
/// reported as stored is there.
TEST_F(PersistentBucketCrashTest, NothingReportedStoredIsEverLost) {
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

}  // namespace
}  // namespace kv
