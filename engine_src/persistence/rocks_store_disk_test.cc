// A RocksStore whose disk is full or broken for a while: nothing that was acknowledged is lost.

#include <gtest/gtest.h>
#include <rocksdb/version.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "persistence/flip.h"
#include "persistence/log_notes.h"
#include "persistence/log_scan.h"
#include "persistence/recoverable_files.h"
#include "persistence/rocks_store_test_support.h"

namespace kv {
namespace {

class RocksStoreDiskTest : public RocksStoreTest {
  protected:
    /// The item is stored at the latest when RocksDB has tried again, which it does every few
    /// seconds.
    bool storesInTime(Vbid vbid, const ItemPtr& item) {
        return inTime([&] { return store(vbid, {item}, item->seqno().get()); });
    }
    template <class Attempt>
    static bool inTime(const Attempt& attempt) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(5);
        while (!attempt()) {
            if (std::chrono::steady_clock::now() > limit) {
                return false;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return true;
    }
};

TEST_F(RocksStoreDiskTest, AFullDiskRefusesTransactionsUntilThereIsRoom) {
    const Vbid vbid{1};
    EXPECT_TRUE(store(vbid, {item(vbid, "before", 1)}, 1));
    disk_.full = true;
    EXPECT_FALSE(store(vbid, {item(vbid, "full", 2)}, 2));
    EXPECT_FALSE(store(vbid, {item(vbid, "full", 2)}, 2));
    EXPECT_FALSE(store_->saveVbState(vbid, state(1)));
    EXPECT_EQ(store_->stats().failedCommits, 3U);
    EXPECT_EQ(scan(vbid), (Docs{{1, "before"}})) << "stored documents can still be read";
    disk_.full = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "full", 2)));
    EXPECT_EQ(store_->stats().sets, 2U) << "attempts that failed do not count";
    EXPECT_TRUE(store_->sync());
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "before"}, {2, "full"}}));
}

TEST_F(RocksStoreDiskTest, ADirectoryThatIsElsewhereTakesNothing) {
    const Vbid vbid{1};
    const auto db = path_ / "db";
    EXPECT_TRUE(store(vbid, {item(vbid, "before", 1)}, 1));
    std::filesystem::rename(db, path_ / "moved");
    EXPECT_FALSE(store(vbid, {item(vbid, "moved", 2)}, 2));
    EXPECT_FALSE(store_->sync());
    std::filesystem::create_directory(db);
    std::ofstream(db / "CURRENT") << "MANIFEST-000004\n";
    EXPECT_FALSE(store(vbid, {item(vbid, "replaced", 2)}, 2));
    std::filesystem::remove_all(db);
    std::filesystem::rename(path_ / "moved", db);
    EXPECT_TRUE(store(vbid, {item(vbid, "back", 2)}, 2));
    EXPECT_TRUE(store_->sync());
    std::filesystem::remove_all(db);
    EXPECT_FALSE(store(vbid, {item(vbid, "removed", 3)}, 3));
    EXPECT_FALSE(store_->saveVbState(vbid, state(3)));
}

TEST_F(RocksStoreDiskTest, WriteErrorsPassWithTheirCause) {
    const Vbid vbid{1};
    EXPECT_TRUE(store(vbid, {item(vbid, "before", 1)}, 1));
    for (uint64_t seqno = 2; seqno <= 4; ++seqno) {
        const auto next = item(vbid, "k" + std::to_string(seqno), seqno);
        disk_.broken = true;
        EXPECT_FALSE(store(vbid, {next}, seqno));
        disk_.broken = false;
        EXPECT_TRUE(storesInTime(vbid, next));
    }
    disk_.broken = true;
    EXPECT_FALSE(store(vbid, {item(vbid, "lost", 5)}, 5));
    store_.reset();  // does not wait for the disk
    disk_.broken = false;
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "before"}, {2, "k2"}, {3, "k3"}, {4, "k4"}}));
}

TEST_F(RocksStoreDiskTest, ErrorsOfOtherCallsThanWritesPassWithTheirCause) {
    const Vbid vbid{1};
    uint64_t seqno = 0;
    for (auto* fault : {&disk_.forgetsNames, &disk_.unopenable}) {
        ++seqno;
        ASSERT_TRUE(store(vbid, {item(vbid, "k" + std::to_string(seqno), seqno)}, seqno));
        *fault = true;
        EXPECT_FALSE(store_->emptyLog());
        *fault = false;
        ++seqno;
        EXPECT_TRUE(storesInTime(vbid, item(vbid, "k" + std::to_string(seqno), seqno)));
        EXPECT_TRUE(inTime([&] { return store_->emptyLog(); }));
    }
    open();
    EXPECT_EQ(scan(vbid).size(), seqno);
}

TEST_F(RocksStoreDiskTest, ALogThatFailsAfterATableFileIsLeft) {
    const Vbid vbid{1};
    ASSERT_TRUE(store(vbid, {item(vbid, "a", 1)}, 1));
    disk_.brokenTables = true;
    EXPECT_FALSE(store_->emptyLog());
    (void)store(vbid, {item(vbid, "b", 2)}, 2);  // RocksDB may take it or refuse it
    disk_.broken = true;
    EXPECT_FALSE(store(vbid, {item(vbid, "b", 2)}, 2));
    disk_.broken = false;
    disk_.brokenTables = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "b", 2)));
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "c", 3)));
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "b"}, {3, "c"}}));
}

TEST_F(RocksStoreDiskTest, ASyncSucceedsAfterAWriteErrorWithoutAnotherWrite) {
    const Vbid vbid{1};
    ASSERT_TRUE(store(vbid, {item(vbid, "a", 1)}, 1));
    disk_.broken = true;
    EXPECT_FALSE(store(vbid, {item(vbid, "b", 2)}, 2));
    EXPECT_FALSE(store_->sync());
    disk_.broken = false;
    EXPECT_TRUE(inTime([&] { return store_->sync(); }));
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}}));
}

TEST_F(RocksStoreDiskTest, AnEmptyStoreSurvivesWriteErrors) {
    const Vbid vbid{1};
    disk_.broken = true;
    const int before = disk_.spaceChecks;
    EXPECT_TRUE(inTime([&] {
        EXPECT_FALSE(store(vbid, {item(vbid, "a", 1)}, 1));
        (void)store_->sync();
        return disk_.spaceChecks >= before + 5;
    })) << "the first error, and two attempts to recover from it that have failed";
    disk_.broken = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "a", 1)));
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}}));
}

TEST_F(RocksStoreDiskTest, ARefusedTransactionLeavesNoPartInTheLog) {
    const Vbid vbid{1};
    ASSERT_TRUE(store(vbid, {item(vbid, "a", 1)}, 1));
    disk_.tears = true;
    disk_.broken = true;
    const std::string value(3 << 20, 'v');  // more than RocksDB writes at a time
    EXPECT_FALSE(store(vbid, {item(vbid, "b", 2, ItemOp::Mutation, value)}, 2));
    const auto logs = filesBelow(dir_.path(), ".log");
    ASSERT_FALSE(logs.empty());
    for (const auto& log : logs) {
        const LogScan scan = scanLog(log);
        EXPECT_TRUE(scan.isWhole()) << log << ": " << scan.wholeBytes << " of " << scan.bytes;
    }
    disk_.broken = false;  // RocksDB 9 does not give up otherwise, and still uses the disk
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "b", 2)));
}

TEST_F(RocksStoreDiskTest, ATransactionWhoseSyncFailsIsNotInTheLog) {
    const Vbid vbid{1};
    config_.sync = true;
    open();
    ASSERT_TRUE(store(vbid, {item(vbid, "a", 1)}, 1));
    disk_.sync = [] { return rocksdb::Status::IOError("not synced by the test"); };
    EXPECT_FALSE(store(vbid, {item(vbid, "b", 2)}, 2));
    store_.reset();
    disk_.sync = {};
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}}));
    EXPECT_TRUE(store(vbid, {item(vbid, "c", 2)}, 2));
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "c"}}));
}

TEST_F(RocksStoreDiskTest, WhatWasStoredWithoutASyncStaysWhenALaterSyncFails) {
    const Vbid vbid{1};
    ASSERT_TRUE(store(vbid, {item(vbid, "a", 1)}, 1));
    ASSERT_TRUE(store_->sync());
    ASSERT_TRUE(store(vbid, {item(vbid, "b", 2)}, 2));
    disk_.sync = [] { return rocksdb::Status::IOError("not synced by the test"); };
    EXPECT_FALSE(store_->sync());
    store_.reset();
    disk_.sync = {};
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "b"}}));
}

TEST_F(RocksStoreDiskTest, ALogThatCannotBeMadeEndsNoProcessAfterAVBucketWasRemoved) {
    const Vbid vbid{1};
    ASSERT_TRUE(store(vbid, {item(vbid, "removed", 1)}, 1));
    ASSERT_TRUE(store_->delVBucket(vbid, state(0)));
    ASSERT_TRUE(store(vbid, {item(vbid, "a", 1)}, 1));
    disk_.noNewLogs = true;
    EXPECT_TRUE(store_->emptyLog());  // begins another log
    for (int attempt = 0; attempt < 3; ++attempt) {
        EXPECT_FALSE(store(vbid, {item(vbid, "b", 2)}, 2));
    }
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}}));
    disk_.noNewLogs = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "b", 2)));
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}, {2, "b"}}));
}

TEST_F(RocksStoreDiskTest, ADiskThatIsFullInTheBackgroundLosesNothing) {
    const Vbid vbid{1};
    disk_.fullForTables = true;  // the log has room; flushes from memory have none
    const std::string value(64 << 10, 'v');
    uint64_t stored = 0;
    while (stored < 1000 &&
           store(vbid,
                 {item(vbid, "k" + std::to_string(stored), stored + 1, ItemOp::Mutation, value)},
                 stored + 1)) {
        ++stored;
    }
    ASSERT_GT(stored, 0U);
    ASSERT_LT(stored, 1000U) << "the failure of a flush in the background is reported";
    EXPECT_EQ(scan(vbid).size(), stored);
    disk_.fullForTables = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "last", stored + 1)));
    open();
    EXPECT_EQ(scan(vbid).size(), stored + 1);
}

TEST_F(RocksStoreDiskTest, ALogThatCannotBeEmptiedKeepsItsContent) {
    const Vbid vbid{1};
    uint64_t seqno = 0;
    for (auto* fault : {&disk_.fullForTables, &disk_.broken}) {
        ++seqno;
        ASSERT_TRUE(store(vbid, {item(vbid, "k" + std::to_string(seqno), seqno)}, seqno));
        *fault = true;
        EXPECT_FALSE(store_->emptyLog()) << "and it does not wait for the disk";
        *fault = false;
        open();
        EXPECT_EQ(scan(vbid).size(), seqno);
    }
    EXPECT_TRUE(store_->emptyLog());
}

TEST_F(RocksStoreDiskTest, ALogThatCannotBeEmptiedIsReportedAfterAnotherError) {
    const Vbid vbid{1};
    disk_.broken = true;
    EXPECT_FALSE(store(vbid, {item(vbid, "a", 1)}, 1));
    disk_.broken = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "a", 1)));
    disk_.brokenTables = true;
    EXPECT_FALSE(store_->emptyLog());
    disk_.brokenTables = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "b", 2)));  // RocksDB has recovered
    EXPECT_TRUE(inTime([&] { return store_->emptyLog(); }));
}

TEST_F(RocksStoreDiskTest, AFlushThatDoesNotEndIsNotWaitedForWithoutEnd) {
    if (ROCKSDB_MAJOR > 7) {
        GTEST_SKIP() << "a newer RocksDB waits itself, and loses no flush";
    }
    config_.longestFlush = std::chrono::milliseconds(100);
    open();
    const Vbid vbid{1};
    disk_.broken = true;
    EXPECT_FALSE(store(vbid, {item(vbid, "a", 1)}, 1));  // from now on RocksDB does not wait
    disk_.broken = false;
    EXPECT_TRUE(storesInTime(vbid, item(vbid, "a", 1)));
    disk_.stuckTables = true;
    auto emptied = std::async(std::launch::async, [this] { return store_->emptyLog(); });
    const bool ended = emptied.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    disk_.stuckTables = false;
    EXPECT_TRUE(ended);
    EXPECT_EQ(emptied.get(), !ended);
    EXPECT_TRUE(inTime([&] { return store_->emptyLog(); }));
    open();
    EXPECT_EQ(scan(vbid), (Docs{{1, "a"}}));
}

TEST_F(RocksStoreDiskTest, ALogThatTwoThreadsFindFailedIsOneFailedLog) {
    const RecoverableFiles files(disk_, std::make_shared<LogNotes>(path_ / "notes"));
    std::unique_ptr<rocksdb::WritableFile> log;
    ASSERT_TRUE(files.env()->NewWritableFile((path_ / "000001.log").string(), &log, {}).ok());
    disk_.sync = [&] {  // a write of another thread fails while this one syncs
        disk_.broken = true;
        EXPECT_FALSE(log->Append("record").ok());
        return rocksdb::Status::IOError("not synced by the test");
    };
    EXPECT_FALSE(log->Sync().ok());
    EXPECT_TRUE(files.hasFailedLogs());
    log.reset();
    EXPECT_FALSE(files.hasFailedLogs()) << "otherwise nothing counts as synced any more";
}

}  // namespace
}  // namespace kv
