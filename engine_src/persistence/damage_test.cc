// Files that have changed or vanished while no engine ran: nothing may be taken for an older state.

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "persistence/data_dir.h"
#include "persistence/doc_codec.h"
#include "persistence/flip.h"
#include "persistence/log_notes.h"
#include "persistence/log_scan.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

constexpr Vbid kVb{1};
constexpr uint64_t kDocuments = 6;
/// Distance in bytes of the changed places, if a database is opened for each.
constexpr uint64_t kStep = 17;

class DamageTest : public testing::Test {
  protected:
    /// A store whose documents are in the log, or in table files.
    void fill(bool emptyLog) {
        RocksStore store(path_.string(), config_);
        for (uint64_t seqno = 1; seqno <= kDocuments; ++seqno) {
            store.begin(kVb, 0);
            store.put(*Item::create(kVb, ItemOp::Mutation, "key" + std::to_string(seqno),
                                    {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                    Blob::create("value")));
            ASSERT_TRUE(store.endAndCommit({.state = 1, .highSeqno = Seqno{seqno}}));
        }
        ASSERT_TRUE(!emptyLog || store.emptyLog());
    }
    std::filesystem::path only(std::string_view ending) const {
        const auto found = filesBelow(path_, ending);
        EXPECT_EQ(found.size(), 1U) << ending;
        return found.at(0);
    }
    std::filesystem::path manifest() const {
        std::string name;
        std::getline(std::ifstream(path_ / "CURRENT"), name);
        return path_ / name;
    }
    std::filesystem::path logNotes() const { return path_.string() + "-logs"; }
    static void put(RocksStore& store, uint64_t seqno, const std::string& key,
                    const std::string& value) {
        store.begin(kVb, 0);
        store.put(*Item::create(kVb, ItemOp::Mutation, key,
                                {.cas = Cas{seqno * 10}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                Blob::create(value)));
        ASSERT_TRUE(store.endAndCommit({.state = 1,
                                        .highSeqno = Seqno{seqno},
                                        .snapshot = {Seqno{seqno}, Seqno{seqno}},
                                        .maxCas = Cas{seqno * 10}}));
    }
    /// Stores documents until those before the last are in a table file, but their keys and the
    /// vBucket's state only in the log. Returns the last seqno in the table file.
    uint64_t fillTable(RocksStore& store, uint64_t seqno) {
        const uint64_t before = store.stats().diskBytes;
        while (filesBelow(path_, ".log").size() < 2) {
            put(store, seqno, "key" + std::to_string(seqno), std::string(100'000, 'x'));
            ++seqno;
        }
        put(store, seqno, "last", "value");
        const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(2);
        while (store.stats().diskBytes < before + 100'000 &&
               std::chrono::steady_clock::now() < limit) {
            std::this_thread::yield();
        }
        return seqno - 2;
    }
    using Docs = std::vector<std::pair<uint64_t, std::string>>;
    static Docs scan(RocksStore& store) {
        Docs docs;
        if (const auto reader = store.openSeqnoScan(kVb, Seqno{1}, Seqno{9999})) {
            for (StoredDoc doc; reader->next(doc);) {
                docs.emplace_back(doc.meta.seqno.get(), std::string(doc.key));
            }
        }
        return docs;
    }
    /// Opens a copy, because opening changes files, and returns the number of its documents.
    uint64_t documentsOfACopy(const RocksConfig& config) {
        const TempDir copies;
        const auto copy = copies.root() / "copy";
        std::filesystem::copy(path_, copy, std::filesystem::copy_options::recursive);
        if (std::filesystem::exists(logNotes())) {
            std::filesystem::copy(logNotes(), copy.string() + "-logs");
        }
        RocksStore store(copy.string(), config);
        cutOffBytes_ = store.stats().cutOffBytes;
        hasGaps_ = store.stats().hasGaps;
        uint64_t documents = 0;
        if (const auto scan = store.openSeqnoScan(kVb, Seqno{1}, Seqno{99})) {
            for (StoredDoc doc; scan->next(doc);) {
                ++documents;
            }
        }
        return documents;
    }

    const TempDir dir_;
    const std::filesystem::path path_{dir_.root() / "store"};
    const RocksConfig config_{.writeBufferBytes = 1 << 20, .blockCacheBytes = 1 << 20};
    const RocksConfig afterCleanStop_{.writeBufferBytes = 1 << 20,
                                      .blockCacheBytes = 1 << 20,
                                      .mayCreate = false,
                                      .needsWholeLog = true};
    const RocksConfig afterCrash_{
            .writeBufferBytes = 1 << 20, .blockCacheBytes = 1 << 20, .mayCreate = false};
    const RocksConfig acceptLoss_{.writeBufferBytes = 1 << 20,
                                  .blockCacheBytes = 1 << 20,
                                  .mayCreate = false,
                                  .acceptLoss = true};
    uint64_t cutOffBytes_{0};  ///< of the last copy
    bool hasGaps_{false};
};

TEST_F(DamageTest, ALogIsWholeUntilAByteOfItChanges) {
    fill(/*emptyLog=*/false);
    for (const auto& file : {only(".log"), manifest()}) {
        const LogScan whole = scanLog(file);
        EXPECT_TRUE(whole.isWhole()) << file;
        EXPECT_EQ(whole.bytes, std::filesystem::file_size(file));
        for (uint64_t at = 0; at < whole.bytes; ++at) {
            for (const unsigned bit : {0U, 7U}) {
                flipBit(file, at, bit);
                const LogScan scan = scanLog(file);
                EXPECT_FALSE(scan.isWhole()) << file << " byte " << at;
                EXPECT_LE(scan.wholeBytes, at);
                EXPECT_TRUE(scan.damaged) << file << " byte " << at;
                flipBit(file, at, bit);
            }
        }
    }
}

TEST_F(DamageTest, ALogThatEndsInMidRecordIsTornNotDamaged) {
    fill(/*emptyLog=*/false);
    const auto file = only(".log");
    uint64_t whole = scanLog(file).bytes;
    for (uint64_t bytes = whole; bytes-- > 0;) {
        std::filesystem::resize_file(file, bytes);
        const LogScan scan = scanLog(file);
        EXPECT_FALSE(scan.damaged) << bytes;
        EXPECT_LE(scan.wholeBytes, bytes);
        EXPECT_LE(scan.wholeBytes, whole);
        whole = scan.wholeBytes;
    }
    EXPECT_EQ(whole, 0U);
}

TEST_F(DamageTest, RecordsOfManyBlocksAreWhole) {
    {
        RocksStore store(path_.string(), config_);
        for (uint64_t seqno = 1; seqno <= 40; ++seqno) {
            store.begin(kVb, 0);
            store.put(*Item::create(kVb, ItemOp::Mutation, "key" + std::to_string(seqno),
                                    {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                    Blob::create(std::string(seqno * 997, 'x'))));
            ASSERT_TRUE(store.endAndCommit({.state = 1, .highSeqno = Seqno{seqno}}));
        }
    }
    for (const auto& file : filesBelow(path_, ".log")) {
        EXPECT_GT(std::filesystem::file_size(file), 32768U);
        EXPECT_TRUE(scanLog(file).isWhole());
    }
}

TEST_F(DamageTest, AfterACleanStopTheLogMustBeWhole) {
    fill(/*emptyLog=*/false);
    const auto log = only(".log");
    EXPECT_EQ(documentsOfACopy(afterCleanStop_), kDocuments);
    for (uint64_t at = 0, size = scanLog(log).bytes; at < size; at += kStep) {
        flipBit(log, at);
        EXPECT_THROW(documentsOfACopy(afterCleanStop_), DamageError) << "byte " << at;
        flipBit(log, at);
    }
    std::filesystem::resize_file(log, scanLog(log).bytes - 1);
    EXPECT_THROW(documentsOfACopy(afterCleanStop_), DamageError);
}

TEST_F(DamageTest, AfterACrashTheCutOffBytesAreCounted) {
    fill(/*emptyLog=*/false);
    const auto log = only(".log");
    const uint64_t size = scanLog(log).bytes;
    EXPECT_EQ(documentsOfACopy(afterCrash_), kDocuments);
    EXPECT_EQ(cutOffBytes_, 0U);
    flipBit(log, size / 2);
    const uint64_t readable = scanLog(log).wholeBytes;
    EXPECT_LT(documentsOfACopy(afterCrash_), kDocuments);
    EXPECT_EQ(cutOffBytes_, size - readable);
    EXPECT_FALSE(hasGaps_) << "only what was stored last is missing";
}

TEST_F(DamageTest, AFlippedByteInAnEmptiedLogLosesNothing) {
    fill(/*emptyLog=*/true);
    EXPECT_EQ(std::filesystem::file_size(only(".log")), 0U);
    EXPECT_EQ(documentsOfACopy(afterCleanStop_), kDocuments);
}

/// RocksDB would take some of these for an older database, and remove files that are not part of
/// it.
TEST_F(DamageTest, ADamagedManifestIsRefused) {
    fill(/*emptyLog=*/true);
    for (const RocksConfig& config : {afterCleanStop_, afterCrash_}) {
        for (uint64_t at = 0, size = scanLog(manifest()).bytes; at < size; at += kStep) {
            flipBit(manifest(), at);
            EXPECT_THROW(documentsOfACopy(config), DamageError) << "byte " << at;
            flipBit(manifest(), at);
        }
    }
}

TEST_F(DamageTest, AMissingFileIsNotAnEmptyStore) {
    fill(/*emptyLog=*/false);
    for (const char* ending : {"CURRENT", ".log"}) {
        const auto file = only(ending);
        std::filesystem::rename(file, dir_.root() / "away");
        EXPECT_THROW(documentsOfACopy(afterCrash_), DamageError) << ending;
        std::filesystem::rename(dir_.root() / "away", file);
    }
    std::filesystem::remove(only(".log"));
    EXPECT_EQ(documentsOfACopy(acceptLoss_), 0U);
    EXPECT_TRUE(hasGaps_);
    std::filesystem::remove_all(path_);
    EXPECT_THROW(RocksStore(path_.string(), afterCrash_), DamageError);
}

TEST_F(DamageTest, AMissingLogIsNotTakenForAnObsoleteOne) {
    fill(/*emptyLog=*/false);
    EXPECT_EQ(documentsOfACopy(afterCrash_), kDocuments);
    std::ofstream(logNotes(), std::ios::app) << "+000001.log\n+00000";  // torn
    EXPECT_THROW(documentsOfACopy(afterCrash_), DamageError);
    EXPECT_EQ(documentsOfACopy(acceptLoss_), kDocuments);
    EXPECT_TRUE(hasGaps_);
    std::ofstream(logNotes(), std::ios::app) << "\n-000001.log\n+1000000.log\n";
    EXPECT_EQ(documentsOfACopy(afterCrash_), kDocuments) << "the newest, as after a power cut";
    EXPECT_FALSE(hasGaps_);
}

/// RocksDB leaves the damaged part of the log out for the keys, which still need it, but not for
/// the documents, which are in a table file.
TEST_F(DamageTest, AfterAnAcceptedLossADocumentIsStoredOnce) {
    {
        RocksStore store(path_.string(), config_);
        put(store, 1, "key", "old");
        put(store, 2, "key", "newer");
        fillTable(store, 3);
    }
    flipBit(filesBelow(path_, ".log").at(0), 100);
    EXPECT_THROW(RocksStore(path_.string(), afterCrash_), DamageError);
    RocksStore store(path_.string(), acceptLoss_);
    ASSERT_TRUE(store.stats().hasGaps);
    const Docs before = scan(store);
    ASSERT_FALSE(before.empty());
    EXPECT_EQ(before.front(), (Docs::value_type{2, "key"}));
    EXPECT_EQ(store.countLive(kVb), before.size());
    const uint64_t high = store.loadVbState(kVb)->highSeqno.get();
    put(store, high + 1, "key", "newest");
    const Docs after = scan(store);
    EXPECT_EQ(std::count_if(after.begin(), after.end(),
                            [](const auto& doc) { return doc.second == "key"; }),
              1);
    EXPECT_EQ(after.back(), (Docs::value_type{high + 1, "key"}));
}

TEST_F(DamageTest, AfterAnAcceptedLossOlderVersionsAreRemovedOncePerKey) {
    {
        RocksStore store(path_.string(), config_);
        put(store, 1, "key", "old");
    }
    const auto writeRaw = [&](const auto& change) {
        rocksdb::DB* db = nullptr;
        std::vector<rocksdb::ColumnFamilyHandle*> handles;
        ASSERT_TRUE(rocksdb::DB::Open({}, path_.string(),
                                      {{"default", {}}, {"seqno", {}}, {"state", {}}}, &handles,
                                      &db)
                            .ok());
        change(*db, handles);
        for (rocksdb::ColumnFamilyHandle* handle : handles) {
            ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
        }
        delete db;
    };
    writeRaw([&](rocksdb::DB& db, const auto& handles) {
        std::string document;
        const auto at = [](uint64_t seqno) {
            const auto bytes = codec::seqnoKey(kVb, Seqno{seqno});
            return std::string(bytes.data(), bytes.size());
        };
        ASSERT_TRUE(db.Get({}, handles[1], at(1), &document).ok());
        ASSERT_TRUE(db.Put({}, handles[1], at(7), document).ok());
        ASSERT_TRUE(db.Put({}, handles[1], at(9), document).ok());
        ASSERT_TRUE(db.Put({}, handles[0], std::string("\0\1gone", 6), "12345678").ok());
    });
    std::filesystem::remove(logNotes());
    std::ofstream(path_.string() + "-gaps") << "";  // as a start that was interrupted leaves it
    RocksStore store(path_.string(), afterCrash_);
    EXPECT_EQ(scan(store), (Docs{{9, "key"}}));
    EXPECT_EQ(store.countLive(kVb), 1U);
    EXPECT_EQ(store.loadVbState(kVb)->highSeqno, Seqno{9});
}

TEST_F(DamageTest, AfterAnAcceptedLossNoSeqnoOfADocumentIsFree) {
    for (const uint64_t stored :
         {uint64_t{0}, uint64_t{3}}) {  // the state in a table file is of that seqno
        std::filesystem::remove_all(path_);
        std::filesystem::remove(logNotes());
        std::filesystem::remove(path_.string() + "-gaps");
        uint64_t last = 0;
        {
            RocksStore store(path_.string(), config_);
            for (uint64_t seqno = 1; seqno <= stored; ++seqno) {
                put(store, seqno, "key" + std::to_string(seqno), "value");
            }
            ASSERT_TRUE(stored == 0 || store.emptyLog());
            last = fillTable(store, stored + 1);
        }
        const auto logs = filesBelow(path_, ".log");
        ASSERT_EQ(logs.size(), 2U);
        for (uint64_t block = 0; block < std::filesystem::file_size(logs[0]); block += 32768) {
            flipBit(logs[0], block);
        }
        std::filesystem::resize_file(logs[1], 0);
        EXPECT_THROW(RocksStore(path_.string(), afterCrash_), DamageError);
        RocksStore store(path_.string(), acceptLoss_);
        const Docs docs = scan(store);
        ASSERT_FALSE(docs.empty());
        EXPECT_GT(docs.back().first, stored) << "else nothing was newer than the state";
        EXPECT_LE(docs.back().first, last + 1);
        const auto state = store.loadVbState(kVb);
        ASSERT_TRUE(state);
        EXPECT_EQ(state->highSeqno, Seqno{docs.back().first});
        EXPECT_EQ(state->snapshot.end, state->highSeqno);
        EXPECT_EQ(state->maxCas, Cas{docs.back().first * 10});
        EXPECT_EQ(state->state, stored == 0 ? 4 : 1) << "it is dead if its state is lost";
        EXPECT_EQ(store.countLive(kVb), docs.size());
    }
}

/// RocksDB compares the table files with the last damaged log only.
TEST_F(DamageTest, TwoDamagedLogsAreNoSilentLossOfTheIndex) {
    {
        RocksStore store(path_.string(), config_);
        put(store, 1, "key", "value");
        fillTable(store, 2);
    }
    const auto logs = filesBelow(path_, ".log");
    ASSERT_EQ(logs.size(), 2U);
    for (const auto& log : logs) {
        for (uint64_t block = 0; block < std::filesystem::file_size(log); block += 32768) {
            flipBit(log, block);
        }
    }
    for (int start = 0; start < 2; ++start) {
        EXPECT_THROW(RocksStore(path_.string(), afterCrash_), DamageError) << "also once opened";
    }
    RocksStore store(path_.string(), acceptLoss_);
    EXPECT_TRUE(store.stats().hasGaps);
    const Docs docs = scan(store);
    ASSERT_FALSE(docs.empty());
    EXPECT_EQ(store.countLive(kVb), docs.size());
    EXPECT_EQ(store.loadVbState(kVb)->highSeqno, Seqno{docs.back().first});
}

TEST_F(DamageTest, TheNotesNameNoLogThatIsNotThere) {
    fill(/*emptyLog=*/false);
    RocksStore store(path_.string(), afterCrash_);
    const LogNotes notes(logNotes());
    const auto first = notes.names();
    EXPECT_EQ(first.size(), 1U) << "those of the former start are forgotten";
    size_t most = 0;
    for (uint64_t seqno = kDocuments + 1; seqno <= 200; ++seqno) {
        store.begin(kVb, 0);
        store.put(*Item::create(kVb, ItemOp::Mutation, "key" + std::to_string(seqno),
                                {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                Blob::create(std::string(100'000, 'x'))));
        ASSERT_TRUE(store.endAndCommit({.state = 1, .highSeqno = Seqno{seqno}}));
        const auto names = notes.names();
        most = std::max(most, names.size());
        for (const std::string& name : names) {
            // It may have been removed in the meantime, which is noted first.
            EXPECT_TRUE(std::filesystem::exists(path_ / name) || !notes.names().contains(name))
                    << name;
        }
    }
    EXPECT_GT(most, 0U);
    EXPECT_FALSE(notes.names().contains(*first.begin())) << "it was replaced and removed";
}

TEST_F(DamageTest, AMarkWithAChangedByteIsIgnored) {
    const auto path = dir_.root() / "data";
    {
        const DataDir marked(path, 2, 1024);
        marked.writeLayout();
        marked.markClean({{kVb, 1, VbUuid{7}, Seqno{9}, 8}});
    }
    ASSERT_TRUE(DataDir(path, 2, 1024).cleanMark());
    for (uint64_t at = 0, size = std::filesystem::file_size(path / "clean"); at < size; ++at) {
        flipBit(path / "clean", at);
        EXPECT_FALSE(DataDir(path, 2, 1024).cleanMark()) << "byte " << at;
        flipBit(path / "clean", at);
    }
}

}  // namespace
}  // namespace kv
