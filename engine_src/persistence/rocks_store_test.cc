#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "persistence/data_dir.h"
#include "persistence/doc_codec.h"
#include "persistence/rocks_store_test_support.h"

namespace kv {
namespace {

TEST_F(RocksStoreTest, KeepsEveryFieldOfADocument) {
    ASSERT_TRUE(store(Vbid{5}, {item(Vbid{5}, "key", 9)}, 9));
    open();
    int seen = 0;
    EXPECT_TRUE(store_->get(Vbid{5}, "key", [&](const StoredDoc& doc) {
        ++seen;
        EXPECT_EQ(doc.key, "key");
        EXPECT_EQ(doc.value, "value");
        EXPECT_EQ(doc.op, ItemOp::Mutation);
        EXPECT_EQ(doc.meta.cas, Cas{90});
        EXPECT_EQ(doc.meta.seqno, Seqno{9});
        EXPECT_EQ(doc.meta.revSeqno, 10U);
        EXPECT_EQ(doc.meta.flags, 0xdeadbeefU);
        EXPECT_EQ(doc.meta.exptime, 17U);
        EXPECT_EQ(doc.meta.datatype, 5);
    }));
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(store_->loadVbState(Vbid{5}), state(9));
    EXPECT_FALSE(store_->get(Vbid{5}, "other", [](const StoredDoc&) {}));
    EXPECT_FALSE(store_->get(Vbid{6}, "key", [](const StoredDoc&) {}));
    EXPECT_FALSE(store_->loadVbState(Vbid{6}).has_value());
}

TEST_F(RocksStoreTest, ReportsWhatWasThereBefore) {
    store_->begin(Vbid{0}, 0);
    EXPECT_FALSE(store_->put(*item(Vbid{0}, "a", 1)));
    EXPECT_TRUE(store_->endAndCommit(state(1)));
    store_->begin(Vbid{0}, 0);
    EXPECT_TRUE(store_->put(*item(Vbid{0}, "a", 2, ItemOp::Deletion)));
    EXPECT_TRUE(store_->endAndCommit(state(2)));
    store_->begin(Vbid{0}, 0);
    EXPECT_FALSE(store_->put(*item(Vbid{0}, "a", 3)));  // a tombstone is not a live document
    EXPECT_TRUE(store_->endAndCommit(state(3)));
    EXPECT_EQ(store_->stats().sets, 2U);
    EXPECT_EQ(store_->stats().deletes, 1U);
    EXPECT_EQ(store_->stats().commits, 3U);
}

TEST_F(RocksStoreTest, TheSeqnoIndexHoldsEachKeyOnce) {
    ASSERT_TRUE(store(Vbid{1},
                      {item(Vbid{1}, "a", 1), item(Vbid{1}, "b", 2), item(Vbid{1}, "c", 3)}, 3));
    ASSERT_TRUE(
            store(Vbid{1}, {item(Vbid{1}, "a", 4), item(Vbid{1}, "b", 5, ItemOp::Deletion)}, 5));
    ASSERT_TRUE(store(Vbid{2}, {item(Vbid{2}, "a", 1)}, 1));
    EXPECT_EQ(scan(Vbid{1}), (Docs{{3, "c"}, {4, "a"}, {5, "b"}}));
    EXPECT_EQ(scan(Vbid{1}, 4, 4), (Docs{{4, "a"}}));
    EXPECT_EQ(scan(Vbid{1}, 6), Docs{});
    EXPECT_EQ(scan(Vbid{2}), (Docs{{1, "a"}}));
    EXPECT_EQ(store_->openSeqnoScan(Vbid{3}, Seqno{1}, Seqno{9}), nullptr);
    EXPECT_EQ(store_->countLive(Vbid{1}), 2U);
}

TEST_F(RocksStoreTest, AScanDoesNotSeeLaterTransactions) {
    ASSERT_TRUE(store(Vbid{0}, {item(Vbid{0}, "a", 1), item(Vbid{0}, "b", 2)}, 2));
    const auto reader = store_->openSeqnoScan(Vbid{0}, Seqno{1}, Seqno{100});
    StoredDoc doc;
    ASSERT_TRUE(reader->next(doc));
    ASSERT_TRUE(store(Vbid{0}, {item(Vbid{0}, "b", 3), item(Vbid{0}, "c", 4)}, 4));
    ASSERT_TRUE(reader->next(doc));
    EXPECT_EQ(doc.key, "b");
    EXPECT_EQ(doc.meta.seqno, Seqno{2});
    EXPECT_FALSE(reader->next(doc));
    EXPECT_FALSE(reader->next(doc));
    EXPECT_EQ(reader->state().highSeqno, Seqno{2});
}

TEST_F(RocksStoreTest, AnAbandonedTransactionLeavesNothing) {
    store_->begin(Vbid{0}, 0);
    store_->put(*item(Vbid{0}, "a", 1));
    store_->abandon();
    EXPECT_EQ(store_->countLive(Vbid{0}), 0U);
    EXPECT_TRUE(store_->listPersistedVbuckets().empty());
    EXPECT_TRUE(store(Vbid{1}, {item(Vbid{1}, "b", 1)}, 1));
    EXPECT_EQ(store_->stats().sets, 1U);
}

TEST_F(RocksStoreTest, OneWriteStoresAllEndedTransactions) {
    const auto transaction = [this](uint16_t id, uint64_t seqno) {
        store_->begin(Vbid{id}, 0);
        const bool wasLive = store_->put(*item(Vbid{id}, "key", seqno));
        store_->end(state(seqno));
        return wasLive;
    };
    for (const uint64_t seqno : {1U, 2U}) {
        for (const uint16_t id : std::initializer_list<uint16_t>{3, 1, 2}) {
            EXPECT_EQ(transaction(id, seqno), seqno == 2);
        }
        EXPECT_EQ(scan(Vbid{3}).size(), seqno - 1) << "nothing is stored yet";
        ASSERT_TRUE(store_->commit());
        EXPECT_EQ(store_->stats().commits, seqno);
        for (const uint16_t id : std::initializer_list<uint16_t>{1, 2, 3}) {
            EXPECT_EQ(scan(Vbid{id}), (Docs{{seqno, "key"}}));
            EXPECT_EQ(store_->loadVbState(Vbid{id}), state(seqno));
        }
    }
    transaction(1, 3);
    transaction(2, 3);
    store_->begin(Vbid{3}, 0);
    store_->put(*item(Vbid{3}, "key", 3));
    store_->abandon();
    EXPECT_TRUE(transaction(1, 4));
    ASSERT_TRUE(store_->commit());
    EXPECT_EQ(scan(Vbid{1}), (Docs{{4, "key"}}));
    for (const uint16_t id : std::initializer_list<uint16_t>{2, 3}) {
        EXPECT_EQ(scan(Vbid{id}), (Docs{{2, "key"}})) << "it was dropped with the others";
        EXPECT_EQ(store_->loadVbState(Vbid{id}), state(2));
    }
}

TEST_F(RocksStoreTest, DeletesAVBucketAndNoOther) {
    for (const uint16_t id : std::initializer_list<uint16_t>{0, 1, 255, 256, 0xffff}) {
        ASSERT_TRUE(
                store(Vbid{id}, {item(Vbid{id}, "a", 1), item(Vbid{id}, "\xff\xff\xff", 2)}, 2));
    }
    const PersistedVbState left{.maxDeletedRev = 7};
    EXPECT_TRUE(store_->delVBucket(Vbid{255}, left));
    EXPECT_TRUE(store_->delVBucket(Vbid{0xffff}, left));
    EXPECT_EQ(store_->loadVbState(Vbid{255}), left);
    EXPECT_EQ(store_->countLive(Vbid{255}), 0U);
    EXPECT_EQ(store_->countLive(Vbid{0xffff}), 0U);
    for (const uint16_t id : std::initializer_list<uint16_t>{0, 1, 256}) {
        EXPECT_EQ(scan(Vbid{id}).size(), 2U);
        EXPECT_EQ(store_->countLive(Vbid{id}), 2U);
    }
    // And it can start again with the same seqnos.
    ASSERT_TRUE(store(Vbid{255}, {item(Vbid{255}, "b", 1)}, 1));
    EXPECT_EQ(scan(Vbid{255}), (Docs{{1, "b"}}));
}

TEST_F(RocksStoreTest, RollsBackToAWholeState) {
    const Vbid vbid{0};
    const auto commit = [&](const std::vector<ItemPtr>& items, uint64_t high, uint64_t end) {
        auto next = store_->loadVbState(vbid).value_or(state(high));
        next.highSeqno = Seqno{high};
        next.snapshot.end = Seqno{end};
        next.noteCommit();
        store_->begin(vbid, 0);
        for (const ItemPtr& document : items) {
            store_->put(*document);
        }
        ASSERT_TRUE(store_->endAndCommit(next));
    };
    EXPECT_FALSE(store_->rollback(vbid, Seqno{0}));
    commit({item(vbid, "a", 1), item(vbid, "b", 2)}, 2, 2);
    EXPECT_FALSE(store_->rollback(vbid, Seqno{1})) << "who knows what 1 replaced";
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "b"}}));
    commit({item(vbid, "c", 3)}, 3, 4);
    commit({item(vbid, "d", 4)}, 4, 4);
    commit({item(vbid, "e", 6)}, 6, 6);
    EXPECT_TRUE(store_->rollback(vbid, Seqno{5}));
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}}));
    EXPECT_TRUE(store_->rollback(vbid, Seqno{3})) << "3 is in the middle of a snapshot";
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "b"}}));
    EXPECT_FALSE(store_->get(vbid, "d", [](const StoredDoc&) {}));
    const auto rolledBack = store_->loadVbState(vbid);
    EXPECT_EQ(rolledBack->highSeqno, Seqno{2});
    EXPECT_EQ(rolledBack->snapshot, (SnapshotRange{Seqno{2}, Seqno{2}}));
    EXPECT_EQ(rolledBack->rollbackPoints.lastUpTo(Seqno{9}), Seqno{2});
    EXPECT_TRUE(store_->rollback(vbid, Seqno{2})) << "where it is";
    commit({item(vbid, "a", 4)}, 4, 4);
    EXPECT_FALSE(store_->rollback(vbid, Seqno{3})) << "the old \"a\" is gone";
    EXPECT_EQ(scan(vbid), (Docs{{2, "b"}, {4, "a"}}));
    EXPECT_FALSE(store_->rollback(Vbid{9}, Seqno{0}));
}

TEST_F(RocksStoreTest, ARollbackOfTooManyDocumentsIsRefused) {
    const Vbid vbid{0};
    const auto commit = [&](uint64_t first, uint64_t last) {
        auto next = store_->loadVbState(vbid).value_or(state(last));
        next.highSeqno = next.snapshot.end = Seqno{last};
        next.noteCommit();
        store_->begin(vbid, 0);
        for (uint64_t seqno = first; seqno <= last; ++seqno) {
            store_->put(*item(vbid, "key-" + std::to_string(seqno), seqno));
        }
        ASSERT_TRUE(store_->endAndCommit(next));
    };
    commit(1, 1);
    commit(2, 100);
    config_.rollbackBytes = 1000;
    open();
    EXPECT_FALSE(store_->rollback(vbid, Seqno{1}));
    EXPECT_EQ(scan(vbid).size(), 100U) << "nothing was changed";
    config_.rollbackBytes = 10'000;
    open();
    EXPECT_TRUE(store_->rollback(vbid, Seqno{1}));
    EXPECT_EQ(scan(vbid).size(), 1U);
}

TEST_F(RocksStoreTest, AVBucketStateOfAnOlderVersionCanBeRead) {
    PersistedVbState expected = state(3);
    expected.refusedHistory = VbUuid{5};
    std::string bytes = codec::encode(expected);
    EXPECT_EQ(codec::decodeVbState(bytes), expected);
    expected.refusedHistory = {};
    bytes.erase(50, sizeof(uint64_t));
    for (const char version : {'\2', '\3'}) {
        bytes[0] = version;
        EXPECT_EQ(codec::decodeVbState(bytes), expected) << int{version};
    }
    expected.purgedSeqno = Seqno{1};
    expected.rollbackPoints.add(Seqno{2});
    expected.rollbackPoints.add(Seqno{3});
    bytes = codec::encode(expected);
    EXPECT_EQ(codec::decodeVbState(bytes), expected);
    bytes.erase(50, sizeof(uint64_t));
    bytes[0] = '\2';
    EXPECT_THROW(codec::decodeVbState(bytes), StoreError) << "version 2 had no such points";
    bytes[0] = '\3';
    std::swap(bytes[bytes.size() - 16], bytes[bytes.size() - 8]);
    EXPECT_THROW(codec::decodeVbState(bytes), StoreError) << "they ascend";
}

TEST(RollbackPointsTest, AreDenserTheNewerTheyAre) {
    std::mt19937 random(5);
    RollbackPoints points;
    EXPECT_EQ(points.lastUpTo(Seqno{9}), Seqno{});
    uint64_t high = 0;
    for (int commit = 0; commit < 20'000; ++commit) {
        high += 1 + random() % 9;
        points.add(Seqno{high});
    }
    ASSERT_EQ(points.all().size(), RollbackPoints::kMax);
    EXPECT_EQ(points.all().back(), Seqno{high});
    for (uint64_t wanted = high; wanted > high / 2; --wanted) {
        const Seqno point = points.lastUpTo(Seqno{wanted});
        EXPECT_LE(point, Seqno{wanted});
        EXPECT_LE(wanted - point.get(), 4 * (high - wanted) + 16) << wanted << " of " << high;
    }
    points.removeAbove(Seqno{high - 1});
    EXPECT_EQ(points.all().size(), RollbackPoints::kMax - 1);
    EXPECT_LT(points.lastUpTo(Seqno{high}), Seqno{high});
}

TEST_F(RocksStoreTest, AMalformedStoreIsAnErrorNotAnEmptyOne) {
    EXPECT_THROW(codec::decodeVbState(std::string(40, '\0')), StoreError);
    EXPECT_THROW(codec::decodeVbState(""), StoreError);
    EXPECT_THROW((void)codec::decodeDoc(Seqno{1}, "short"), StoreError);
    EXPECT_THROW((void)codec::decodeKeyEntry("12345"), StoreError);
    std::string state = codec::encode(RocksStoreTest::state(3));
    EXPECT_EQ(codec::decodeVbState(state), RocksStoreTest::state(3));
    EXPECT_THROW(codec::decodeVbState(state + "x"), StoreError);
    store_.reset();
    for (const auto& file : std::filesystem::directory_iterator(path_ / "db")) {
        if (file.path().filename() == "CURRENT") {
            std::ofstream(file.path()) << "nonsense";
        }
    }
    EXPECT_THROW(RocksStore((path_ / "db").string(), config_), StoreError);
    EXPECT_THROW(RocksStore((path_ / "new").string(), {.compression = "rar"}), StoreError);
}

TEST_F(RocksStoreTest, RandomTransactionsMatchAModel) {
    std::mt19937 random(99);
    const auto pick = [&](uint32_t below) {
        return std::uniform_int_distribution<uint32_t>(0, below - 1)(random);
    };
    struct Doc {
        uint64_t seqno;
        bool live;
        std::string value;
    };
    std::map<uint16_t, std::map<std::string, Doc>> model;
    std::map<uint16_t, uint64_t> high;
    for (int round = 0; round < 300; ++round) {
        const auto vb = static_cast<uint16_t>(pick(4) * 100);
        std::map<std::string, Doc> batch;
        store_->begin(Vbid{vb}, 0);
        for (uint32_t count = 1 + pick(30); count > 0; --count) {
            const std::string key = "key" + std::to_string(pick(80));
            if (batch.contains(key)) {
                continue;
            }
            const Doc doc{++high[vb], pick(4) != 0,
                          std::string(pick(200), 'x') + std::to_string(random())};
            const auto before = model[vb].find(key);
            EXPECT_EQ(store_->put(*item(Vbid{vb}, key, doc.seqno,
                                        doc.live ? ItemOp::Mutation : ItemOp::Deletion, doc.value)),
                      before != model[vb].end() && before->second.live);
            batch[key] = doc;
        }
        if (pick(10) == 0) {
            store_->abandon();
            continue;
        }
        ASSERT_TRUE(store_->endAndCommit(state(high[vb])));
        for (auto& [key, doc] : batch) {
            model[vb][key] = doc;
        }
        if (pick(40) == 0) {
            open();
        }
    }
    for (auto& [vb, docs] : model) {
        std::map<uint64_t, std::string> bySeqno;
        size_t live = 0;
        for (const auto& [key, doc] : docs) {
            bySeqno[doc.seqno] = key;
            live += doc.live ? 1U : 0U;
        }
        EXPECT_EQ(scan(Vbid{vb}), Docs(bySeqno.begin(), bySeqno.end()));
        EXPECT_EQ(store_->countLive(Vbid{vb}), live);
        for (const auto& [key, doc] : docs) {
            EXPECT_TRUE(store_->get(Vbid{vb}, key, [&, &expected = doc](const StoredDoc& stored) {
                EXPECT_EQ(stored.meta.seqno, Seqno{expected.seqno});
                EXPECT_EQ(isDeletion(stored.op), !expected.live);
                EXPECT_EQ(stored.value, expected.live ? expected.value : "");
            }));
        }
    }
}

TEST(DataDirTest, BeginsAgainAfterAnInterruptedFirstStart) {
    const TempDir dir;
    const auto store = dir.root() / "shard-0";
    const auto start = [&](const char* file, const char* text) {
        DataDir made(dir.root(), 1, 64);
        std::filesystem::create_directory(store);
        std::ofstream(store / file) << text;
        return made;
    };
    EXPECT_TRUE(start("000004.log", "").isNew());
    EXPECT_TRUE(DataDir(dir.root(), 1, 64).isNew());
    EXPECT_FALSE(std::filesystem::exists(store));
    (void)start("000004.log", "document");
    EXPECT_TRUE(DataDir(dir.root(), 1, 64).isNew());
    EXPECT_TRUE(std::filesystem::exists(store)) << "never removes documents";
}

TEST(DataDirTest, KeepsAStoreThatAnotherStartIsMaking) {
    const TempDir dir;
    const auto store = dir.root() / "shard-0";
    {
        const DataDir first(dir.root(), 1, 64);
        std::filesystem::create_directory(store);  // RocksDB has not locked it yet
        EXPECT_THROW(DataDir(dir.root(), 1, 64), StoreError);
        EXPECT_TRUE(std::filesystem::exists(store));
    }
    EXPECT_TRUE(DataDir(dir.root(), 1, 64).isNew());
    EXPECT_FALSE(std::filesystem::exists(store));
}

TEST(DataDirTest, KeepsStoresWithoutALayout) {
    const TempDir dir;
    const auto store = dir.root() / "shard-0";
    {
        const DataDir fresh(dir.root(), 1, 64);
        std::filesystem::create_directory(store);
        fresh.writeLayout();
    }
    EXPECT_FALSE(DataDir(dir.root(), 1, 64).isNew());
    std::filesystem::remove(dir.root() / "layout.json");
    for (int start = 0; start < 2; ++start) {
        EXPECT_TRUE(DataDir(dir.root(), 1, 64).isNew());
        EXPECT_TRUE(std::filesystem::exists(store)) << "its log may have been lost";
    }
}

TEST(DataDirTest, RemembersLayoutAndCleanStop) {
    const TempDir dir;
    const std::filesystem::path& path = dir.root();
    const std::vector<StoredVBucket> stored{{Vbid{3}, 1, VbUuid{~uint64_t{0} >> 16}, Seqno{9}, 8}};
    {
        EXPECT_TRUE(DataDir(path / "data", 2, 1024).isNew());
        const DataDir fresh(path / "data", 2, 1024);
        EXPECT_TRUE(fresh.isNew()) << "its stores may be missing";
        fresh.writeLayout();
        EXPECT_FALSE(fresh.cleanMark());
        fresh.markClean(stored);
    }
    {
        DataDir again(path / "data", 2, 1024);
        EXPECT_FALSE(again.isNew());
        EXPECT_EQ(again.cleanMark(), stored);
        again.removeCleanMark();
        EXPECT_FALSE(again.cleanMark());
    }
    EXPECT_FALSE(DataDir(path / "data", 2, 1024).cleanMark());
    EXPECT_THROW(DataDir(path / "data", 1, 1024), StoreError);
    for (const char* layout :
         {"{not json", "[]", R"({"format":"1"})", R"({"format":1,"shards":"2","vbuckets":1024})",
          R"({"format":1,"shards":4294967298,"vbuckets":1024})"}) {
        std::ofstream(path / "data" / "layout.json") << layout;
        EXPECT_THROW(DataDir(path / "data", 2, 1024), StoreError) << layout;
    }
    std::filesystem::remove(path / "data" / "layout.json");
    std::filesystem::create_directory(path / "data" / "layout.json");
    EXPECT_THROW(DataDir(path / "data", 2, 1024), StoreError) << "it is a directory";
    std::ofstream(path / "file") << "x";
    EXPECT_THROW(DataDir(path / "file" / "data", 2, 1024), StoreError);
}

}  // namespace
}  // namespace kv
