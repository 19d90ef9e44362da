#include "bucket/vbucket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "bucket/test_support.h"

namespace kv::test {

class PersistentVBucket : public testing::Test {
  public:
    UnflushedBucket bucket{{.vbuckets = 1}};
    Client client{bucket};

    void SetUp() override { bucket.setVBucketState(Vbid{0}, VbState::Active, client.now); }
    std::vector<ItemPtr> flush() { return bucket.flush(Vbid{0}); }
    bool isDirty(std::string_view key) {
        const auto guard = client.vb().hashTable().lock(key);
        return client.vb().hashTable().find(guard, key)->isDirty();
    }
};

// Fails by itself, not only under AddressSanitizer: checks the size and the end of a list that was
// left half-cleared.
TEST(EphemeralVBucket, ClearingAndPurgingAtTheSameTime) {
    const auto bucket = makeBucket(BucketType::Ephemeral, {.vbuckets = 1});
    Client client(*bucket);
    constexpr int kDocuments = 400;
#ifdef KV_SANITIZED
    constexpr int kRounds = 50;
#else
    constexpr int kRounds = 200;
#endif
    for (int round = 0; round < kRounds; ++round) {
        bucket->setVBucketState(Vbid{0}, VbState::Active, client.now);
        for (int i = 0; i < kDocuments; ++i) {
            client.set("k" + std::to_string(i), "v");
            client.remove("k" + std::to_string(i));
        }
        bucket->setVBucketState(Vbid{0}, VbState::Dead, client.now);
        client.wait(1);
        std::atomic<bool> purging{false};
        std::thread purger([&] {
            const BucketMemoryGuard guard(bucket->memory());
            purging = true;
            client.vb().purgeTombstones(0, client.now);
        });
        while (!purging) {
        }
        client.vb().clear({}, client.now);
        purger.join();
        ASSERT_EQ(client.vb().sequence()->size(), 0u);
        std::vector<ItemPtr> items;
        SequenceReader reader(*client.vb().sequence(), Vbid{0}, Seqno{1});
        EXPECT_FALSE(reader.read(items, 1));
        EXPECT_TRUE(items.empty());
    }
}

TEST_F(PersistentVBucket, AMutationIsDirtyUntilItIsPersisted) {
    client.set("k", "v");
    EXPECT_TRUE(isDirty("k"));
    EXPECT_EQ(bucket.itemsToPersist(), 1u);
    EXPECT_EQ(flush().size(), 1u);
    EXPECT_FALSE(isDirty("k"));
    EXPECT_EQ(bucket.itemsToPersist(), 0u);
}

TEST_F(PersistentVBucket, AChangeDuringTheFlushStaysDirty) {
    client.set("k", "1");
    auto taken = client.vb().checkpoints().persistence().takeItemsToPersist(100);
    client.set("k", "2");
    client.vb().onPersisted(*taken.items.at(0));
    client.vb().checkpoints().persistence().persisted();
    EXPECT_TRUE(isDirty("k"));
    const auto rest = flush();
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0]->value(), "2");
    EXPECT_FALSE(isDirty("k"));
}

TEST_F(PersistentVBucket, APersistedTombstoneLeavesTheHashTable) {
    client.set("k", "v");
    client.remove("k");
    const auto items = flush();
    ASSERT_EQ(items.size(), 1u);  // de-duplicated: only the deletion
    EXPECT_TRUE(items[0]->isDeletion());
    EXPECT_EQ(items[0]->exptime(), client.now.seconds);
    EXPECT_EQ(client.getMeta("k").status, OpStatus::KeyNotFound);
    EXPECT_EQ(bucket.stats().storedValues, 0u);
    client.set("k", "again");
    EXPECT_EQ(client.getMeta("k").number, 3u);
}

TEST_F(PersistentVBucket, AKeyStaysUniqueInACheckpointWhenItsTombstoneIsGone) {
    auto cursor = client.vb().checkpoints().cursors().registerCursor("reader", Seqno{0});
    client.set("k", "1");
    client.remove("k");
    flush();
    client.set("k", "2");
    const auto read = client.vb().checkpoints().cursors().getItemsForCursor(cursor.cursor, 100);
    size_t seen = 0;
    for (const ItemPtr& item : read.items) {
        seen += item->key() == "k" ? 1u : 0u;
    }
    EXPECT_EQ(seen, 1u);
}

TEST_F(PersistentVBucket, WarmUpLoadsCleanDocumentsAndNeverOverwritesAClient) {
    client.set("mine", "new");
    const ItemMeta meta{.cas = Cas{11},
                        .seqno = Seqno{1},
                        .revSeqno = 4,
                        .flags = 2,
                        .exptime = 0,
                        .datatype = 1};
    client.vb().loadStored("mine", ItemOp::Mutation, meta, Blob::create("old"));
    client.vb().loadStored("stored", ItemOp::Mutation, meta, Blob::create("value"));
    EXPECT_EQ(client.valueOf("mine"), "new");
    const OpResult loaded = client.get("stored");
    EXPECT_EQ(loaded.value.view(), "value");
    EXPECT_EQ(loaded.cas, Cas{11});
    EXPECT_EQ(loaded.flags, 2u);
    EXPECT_FALSE(isDirty("stored"));
    EXPECT_EQ(bucket.itemsToPersist(), 1u);
}

TEST_F(PersistentVBucket, WarmUpKeepsTheNewestOfTwoVersions) {
    const auto load = [&](const char* key, uint64_t seqno, ItemOp op) {
        client.vb().loadStored(key, op, {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                               isDeletion(op) ? BlobPtr{} : Blob::create(std::to_string(seqno)));
    };
    for (const uint64_t seqno : {uint64_t{60}, uint64_t{200}, uint64_t{50}}) {
        load("stored", seqno, ItemOp::Mutation);
    }
    load("deleted", 60, ItemOp::Mutation);
    load("deleted", 200, ItemOp::Deletion);
    EXPECT_EQ(client.valueOf("stored"), "200");
    EXPECT_FALSE(isDirty("stored"));
    EXPECT_EQ(client.get("deleted").status, OpStatus::KeyNotFound);
    EXPECT_EQ(client.vb().hashTable().sums().items, 1);
}

TEST_F(PersistentVBucket, AnEvictedValueBlocks) {
    client.set("k", "value");
    flush();
    {
        auto guard = client.vb().hashTable().lock("k");
        auto& table = client.vb().hashTable();
        table.update(guard, *table.find(guard, "k"),
                     [](StoredValue& value) { EXPECT_TRUE(value.evictValue()); });
    }
    EXPECT_EQ(bucket.stats().nonResident, 1u);
    EXPECT_EQ(client.get("k").status, OpStatus::WouldBlock);
    EXPECT_EQ(client.concat("k", Concat::Append, "x").status, OpStatus::WouldBlock);
    EXPECT_EQ(client.arithmetic("k", {}).status, OpStatus::WouldBlock);
    EXPECT_EQ(client.touch("k", 1).status, OpStatus::WouldBlock);
}

// The flushed items, applied in order to a model of the disk, give the hash table.
TEST_F(PersistentVBucket, TheFlushedLogRebuildsTheTable) {
    std::mt19937 random(11);
    std::map<std::string, std::string> disk;
    std::map<std::string, std::string> model;
    for (int step = 0; step < 20000; ++step) {
        const std::string key = "k" + std::to_string(random() % 200);
        switch (random() % 6) {
            case 0:
                if (client.remove(key).ok()) {
                    model.erase(key);
                }
                break;
            case 1:
                if (random() % 20 == 0) {
                    for (const ItemPtr& item : flush()) {
                        if (item->isDeletion()) {
                            disk.erase(std::string(item->key()));
                        } else {
                            disk[std::string(item->key())] = item->value();
                        }
                    }
                    ASSERT_EQ(disk, model);
                }
                break;
            default:
                model[key] = std::to_string(step);
                ASSERT_TRUE(client.set(key, model[key]).ok());
        }
    }
    EXPECT_EQ(bucket.stats().items, model.size());
}

class AnyVBucket : public testing::TestWithParam<BucketType> {
  public:
    std::unique_ptr<Bucket> bucket = makeBucket(GetParam(), {.vbuckets = 1});
    Client client{*bucket};
};

INSTANTIATE_TEST_SUITE_P(BothTypes, AnyVBucket,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& type) { return std::string(toString(type.param)); });

TEST_P(AnyVBucket, BecomingActiveBeginsANewHistory) {
    const VbUuid first = client.vb().failoverLog().uuid();
    EXPECT_NE(first, VbUuid{});
    client.set("k", "v");
    bucket->setVBucketState(Vbid{0}, VbState::Active, client.now);
    EXPECT_EQ(client.vb().failoverLog().uuid(), first);
    bucket->setVBucketState(Vbid{0}, VbState::Replica, client.now);
    EXPECT_EQ(client.vb().failoverLog().uuid(), first);
    bucket->setVBucketState(Vbid{0}, VbState::Active, client.now);
    const auto entries = client.vb().failoverLog().entries();
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].seqno, Seqno{1});
    EXPECT_EQ(entries[1], (FailoverEntry{first, Seqno{0}}));
}

TEST_P(AnyVBucket, FailoverLogIsBoundedAndDropsAbandonedHistories) {
    FailoverLog log;
    log.replace({{VbUuid{9}, Seqno{100}}, {VbUuid{8}, Seqno{10}}});
    EXPECT_EQ(log.uuid(), VbUuid{9});
    log.begin(log.prepare(), Seqno{50});
    const auto entries = log.entries();
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[1], (FailoverEntry{VbUuid{8}, Seqno{10}}));
    for (uint64_t i = 0; i < 100; ++i) {
        log.begin(log.prepare(), Seqno{50 + i});
    }
    EXPECT_EQ(log.entries().size(), FailoverLog::kMaxEntries);
}

/// A node that restarts many times without a write keeps the history that its replicas name: they
/// would otherwise throw complete copies away.
TEST_P(AnyVBucket, HistoriesWithoutSeqnosDisplaceNoneThatHasThem) {
    FailoverLog log;
    log.replace({{VbUuid{9}, Seqno{40}}, {VbUuid{8}, Seqno{0}}});
    for (int i = 0; i < 60; ++i) {
        log.begin(log.prepare(), Seqno{100});
        EXPECT_EQ(log.uuidOf(Seqno{100}), VbUuid{9});
        EXPECT_EQ(log.uuidOf(Seqno{40}), VbUuid{8});
    }
    EXPECT_EQ(log.entries().size(), FailoverLog::kMaxEntries);
    EXPECT_EQ(log.entries().front().uuid, log.uuid());
}

TEST_P(AnyVBucket, AReplicaTakesCasSeqnoAndRevisionAsTheyCome) {
    bucket->setVBucketState(Vbid{0}, VbState::Replica, client.now);
    VBucket& vb = client.vb();
    vb.checkpoints().createSnapshot({Seqno{1}, Seqno{9}}, CheckpointType::Memory, false,
                                    client.now.nanos);
    const ItemMeta meta{.cas = Cas{77},
                        .seqno = Seqno{5},
                        .revSeqno = 3,
                        .flags = 1,
                        .exptime = 0,
                        .datatype = 0};
    EXPECT_EQ(vb.applyReplicated(vb.term(), "k", ItemOp::Mutation, meta, Blob::create("v"),
                                 client.now),
              OpStatus::Ok);
    ItemMeta deletion = meta;
    deletion.seqno = Seqno{9};
    EXPECT_EQ(vb.applyReplicated(vb.term(), "gone", ItemOp::Deletion, deletion, {}, client.now),
              OpStatus::Ok);
    EXPECT_EQ(vb.highSeqno(), Seqno{9});
    bucket->setVBucketState(Vbid{0}, VbState::Active, client.now);
    const OpResult got = client.get("k");
    EXPECT_EQ(got.cas, Cas{77});
    EXPECT_EQ(got.seqno, Seqno{5});
    EXPECT_EQ(client.getMeta("k").number, 3u);
    EXPECT_TRUE(client.getMeta("gone").deleted);
    EXPECT_EQ(client.set("k", "w").seqno, Seqno{10});
    EXPECT_EQ(vb.applyReplicated(vb.term(), "k", ItemOp::Mutation, meta, {}, client.now),
              OpStatus::NotMyVbucket);
}

TEST_P(AnyVBucket, AReplicaDoesNotExpireOnItsOwn) {
    client.set("k", "v", {.exptime = client.now.seconds + 1});
    bucket->setVBucketState(Vbid{0}, VbState::Replica, client.now);
    client.wait(5);
    EXPECT_EQ(bucket->expirePass(client.now), 0u);
    EXPECT_EQ(bucket->flushAll(client.now).status, OpStatus::Ok);
    EXPECT_EQ(client.vb().highSeqno(), Seqno{1});
}

TEST_P(AnyVBucket, ListenersHearEverySeqnoAndNothingAfterTheirRemoval) {
    struct Recorder final : SeqnoListener {
        std::vector<uint64_t> seqnos;
        void onSeqno(Vbid, Seqno seqno) noexcept override { seqnos.push_back(seqno.get()); }
    };
    Recorder recorder;
    bucket->listeners().add(&recorder);
    client.set("a", "1", {.exptime = client.now.seconds + 1});
    client.remove("none");
    client.set("b", "1");
    client.wait(2);
    client.get("a");
    bucket->listeners().remove(&recorder);
    client.set("c", "1");
    EXPECT_EQ(recorder.seqnos, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_P(AnyVBucket, AnEphemeralOneWithoutReadersRetainsNoItems) {
    for (int i = 0; i < 1000; ++i) {
        client.set("k" + std::to_string(i), "v");
    }
    EXPECT_EQ(client.vb().highSeqno(), Seqno{1000});
    if (GetParam() == BucketType::Ephemeral) {
        EXPECT_EQ(client.vb().checkpointMemory(), 0u);
        // A later reader starts with the next seqno; earlier documents are in the sequence list.
        const auto registration =
                client.vb().checkpoints().cursors().registerCursor("late", Seqno{0});
        EXPECT_TRUE(registration.needsBackfill);
        EXPECT_EQ(registration.nextSeqno, Seqno{1001});
        client.set("k0", "after");
        EXPECT_EQ(client.vb()
                          .checkpoints()
                          .cursors()
                          .getItemsForCursor(registration.cursor, 10)
                          .items.size(),
                  1u);
    } else {
        EXPECT_GT(client.vb().checkpointMemory(), 0u);
    }
}

}  // namespace kv::test
