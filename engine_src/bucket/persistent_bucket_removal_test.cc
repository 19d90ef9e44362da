// Removal of vBuckets and documents, and of tombstones that are kept for a while.

#include <gtest/gtest.h>

#include <string>

#include "bucket/persistent_bucket_fixture.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

using PersistentBucketRemovalTest = PersistentBucketTest;

TEST_F(PersistentBucketRemovalTest, ADeletedVBucketIsGoneFromMemoryAndDisk) {
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

TEST_F(PersistentBucketRemovalTest, ADeletedVBucketStaysDeletedAfterAnImmediateCrash) {
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

TEST_F(PersistentBucketRemovalTest, OldTombstonesLeaveTheDisk) {
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
    // The information for clients about purged tombstones survives a restart.
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).purgedSeqno(), Seqno{4});
    EXPECT_GE(bucket_->vbucket(Vbid{0}).maxDeletedRev(), 2U);
    EXPECT_FALSE(bucket_->storeOf(Vbid{0}).rollback(Vbid{0}, Seqno{3})) << "a deletion is missing";
    set("old1", "again");
    const BucketMemoryGuard guard(bucket_->memory());
    EXPECT_EQ(bucket_->getMeta(Vbid{0}, "old1", now).number, 5U);
}

TEST_F(PersistentBucketRemovalTest,
       TheTombstoneAtTheLastSeqnoLeavesTheDiskWhenItIsNotTheLastAnyMore) {
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

TEST_F(PersistentBucketRemovalTest, TheRecordOfATombstoneSurvivesFlushAndRestart) {
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
    const auto metaOf = [&](std::string_view key) {
        const Bucket::Stored stored = bucket_->readStored(Vbid{0}, key);
        return bucket_->getMeta(Vbid{0}, key, now, &stored);
    };
    const auto expectNoted = [&](const std::string& when) {
        const BucketMemoryGuard guard(bucket_->memory());
        const OpResult meta = metaOf("removed");
        EXPECT_TRUE(meta.ok() && meta.deleted) << when;
        EXPECT_EQ(meta.cas, removed) << when;
        EXPECT_EQ(meta.number, 2U) << when;
        EXPECT_EQ(meta.exptime, now.seconds) << when;
        EXPECT_EQ(meta.seqno, Seqno{2}) << when;
        EXPECT_EQ(meta.flags, 7U) << when;
        const OpResult two = metaOf("expired");
        EXPECT_TRUE(two.ok() && two.deleted) << when;
        EXPECT_EQ(two.exptime, now.seconds) << when;
        EXPECT_EQ(two.flags, 3U) << when;
        const OpResult three = metaOf("foreign");
        EXPECT_TRUE(three.ok() && three.deleted) << when;
        EXPECT_EQ(three.cas, Cas{50}) << when;
        EXPECT_EQ(three.number, 40U) << when;
        EXPECT_EQ(three.exptime, now.seconds) << when << ": the time is ours";
        EXPECT_EQ(metaOf("never").status, OpStatus::KeyNotFound) << when;
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

TEST_F(PersistentBucketRemovalTest, AForeignVersionIsComparedWithATombstoneOnDisk) {
    PersistentBucket& bucket = open(fake_);
    const OpTime now = OpTime::now();
    const auto versionAfter = [&](const Bucket::Stored& stored, uint64_t revision, bool deleted) {
        const BucketMemoryGuard guard(bucket.memory());
        return bucket
                .storeVersion(Vbid{0}, "key", deleted ? "" : "value",
                              {.deleted = deleted, .revSeqno = revision, .cas = Cas{50}}, now,
                              &stored)
                .status;
    };
    const auto version = [&](uint64_t revision, bool deleted) {
        return versionAfter(bucket.readStored(Vbid{0}, "key"), revision, deleted);
    };
    EXPECT_EQ(version(4, true), OpStatus::Ok);
    fake_.advance(1s);
    const auto before = bucket.readStored(Vbid{0}, "key");
    EXPECT_EQ(version(7, true), OpStatus::Ok);
    fake_.advance(1s);
    ASSERT_EQ(bucket.stats().storedValues, 0U) << "on disk only";
    EXPECT_NE(versionAfter(before, 6, false), OpStatus::Ok) << "what was read is outdated";
    EXPECT_EQ(version(6, false), OpStatus::KeyExists) << "the document stays deleted";
    EXPECT_EQ(version(8, false), OpStatus::Ok);
    EXPECT_EQ(get("key"), "value");
}

}  // namespace
}  // namespace kv
