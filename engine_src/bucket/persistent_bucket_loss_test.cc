// Starts that find less than the last stop left, or that cannot determine it.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "bucket/persistent_bucket_fixture.h"
#include "persistence/flip.h"
#include "persistence/power_cut_store.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

class PersistentBucketLossTest : public PersistentBucketTest {
  protected:
    std::filesystem::path data() const { return dir_.path(); }
    void stopCleanly() {
        ASSERT_TRUE(bucket_->persistAll());
        close();
    }
    /// Resets both shards to before "b" and "c" were stored, but keeps the mark of the last stop,
    /// as if a backup had been restored over it.
    void loseWhatWasStoredLast() {
        open(fake_);
        set("a", "1");
        set("a", "1", Vbid{1});
        stopCleanly();
        std::filesystem::copy(data(), dir_.root() / "copy",
                              std::filesystem::copy_options::recursive);
        open(fake_);
        set("b", "2");
        set("c", "3");
        uuid_ = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
        stopCleanly();
        for (const char* shard : {"shard-0", "shard-1"}) {
            replaceByCopy(shard);
        }
    }
    /// As a copy of a directory that does not note its manifests.
    void replaceByCopy(const std::string& shard) {
        std::vector<std::filesystem::path> old;
        for (const auto& entry : std::filesystem::directory_iterator(data())) {
            if (entry.path().filename().string().starts_with(shard)) {
                old.push_back(entry.path());
            }
        }
        for (const auto& path : old) {
            std::filesystem::remove_all(path);
        }
        std::filesystem::rename(dir_.root() / "copy" / shard, data() / shard);
    }
    std::string refusal() {
        try {
            open(fake_);
        } catch (const StoreError& error) {
            bucket_.reset();
            return error.what();
        }
        return "none";
    }

    VbUuid uuid_{};
};

TEST_F(PersistentBucketLossTest, AStartThatFindsLessThanACleanStopLeftIsRefused) {
    loseWhatWasStoredLast();
    for (int attempt = 0; attempt < 2; ++attempt) {  // the mark stays
        const std::string why = refusal();
        EXPECT_NE(why.find("2 documents are gone, 1 vBuckets"), std::string::npos) << why;
        EXPECT_NE(why.find("vBucket 0: 1 documents up to seqno 1, but the last clean stop left 3 "
                           "up to 3"),
                  std::string::npos)
                << why;
        EXPECT_NE(why.find("--accept-loss"), std::string::npos) << why;
    }
}

TEST_F(PersistentBucketLossTest, AnOlderManifestIsRefusedBeforeItsStoreRemovesFiles) {
    open(fake_);
    set("a", "1");
    stopCleanly();
    const auto store = data() / "shard-0";
    const auto copy = dir_.root() / "copy";
    std::filesystem::copy(store, copy, std::filesystem::copy_options::recursive);
    open(fake_);
    set("b", "2");
    stopCleanly();
    const auto overwrite = std::filesystem::copy_options::overwrite_existing;
    const auto newer = dir_.root() / "CURRENT";
    std::filesystem::copy_file(store / "CURRENT", newer);
    for (const auto& entry : std::filesystem::directory_iterator(copy)) {
        std::filesystem::copy(entry.path(), store / entry.path().filename(), overwrite);
    }
    EXPECT_NE(refusal().find("it is older"), std::string::npos);
    std::filesystem::copy_file(newer, store / "CURRENT", overwrite);
    open(fake_);
    EXPECT_EQ(get("b"), "2");
}

TEST_F(PersistentBucketLossTest, AStartThatWasKilledAsItNotedItsManifestCanBeRepeated) {
    open(fake_);
    set("a", "1");
    stopCleanly();
    std::string manifest;
    std::getline(std::ifstream(data() / "shard-0" / "CURRENT"), manifest);
    const auto unfinished = data() / ("shard-0." + manifest + ".new");
    std::ofstream(unfinished) << "";
    EXPECT_EQ(refusal(), "none");
    EXPECT_EQ(get("a"), "1");
    EXPECT_FALSE(std::filesystem::exists(unfinished));
}

TEST_F(PersistentBucketLossTest, AnAcceptedLossIsCountedAndBeginsWithoutHistory) {
    loseWhatWasStoredLast();
    persistence_.acceptLoss = true;
    open(fake_);
    EXPECT_EQ(warmup_.lostDocuments, 2U);
    EXPECT_EQ(warmup_.lostVBuckets, 1U);
    EXPECT_EQ(get("a"), "1");
    const auto log = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    ASSERT_EQ(log.size(), 1U);
    EXPECT_NE(log[0].uuid, uuid_);
    EXPECT_EQ(log[0].seqno, Seqno{0}) << "nobody may continue from lost data";
    EXPECT_EQ(set("d", "4").seqno, Seqno{2});
    EXPECT_EQ(bucket_->vbucket(Vbid{1}).failoverLog().entries().front().seqno, Seqno{0})
            << "this one has lost nothing";
    stopCleanly();
    persistence_.acceptLoss = false;
    open(fake_);
    EXPECT_EQ(warmup_.lostVBuckets, 0U);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().entries(), log);
    EXPECT_EQ(get("d"), "4");
}

TEST_F(PersistentBucketLossTest, AStoredStateSurvivesACrashAtOnce) {
    const auto faults = useFaultyStores();
    open(fake_);
    set("a", "1");
    fake_.advance(1s);
    bucket_->setVBucketState(Vbid{0}, VbState::Replica, OpTime::now());
    faults->failStates = 1;
    EXPECT_FALSE(bucket_->storeState(Vbid{0}));
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).state(), VbState::Replica);
    EXPECT_EQ(bucket_->statesToPersist(), 1U);
    EXPECT_TRUE(bucket_->storeState(Vbid{0}));
    EXPECT_EQ(bucket_->statesToPersist(), 0U);
    close();
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).state(), VbState::Replica);
    EXPECT_EQ(bucket_->persistedSeqno(Vbid{0}), Seqno{1});
}

TEST_F(PersistentBucketLossTest, ANewHistorySurvivesAPowerCutAfterAnAcceptedLoss) {
    loseWhatWasStoredLast();
    PowerCut power;
    factory_ = [&](const std::string& path) {
        return std::make_unique<PowerCutStore>(
                std::make_unique<RocksStore>(path, persistence_.rocks), path, power);
    };
    persistence_.acceptLoss = true;
    open(fake_);
    EXPECT_EQ(warmup_.lostVBuckets, 1U);
    close();
    power.strike();
    persistence_.acceptLoss = false;
    open(fake_);
    for (const auto& entry : bucket_->vbucket(Vbid{0}).failoverLog().entries()) {
        EXPECT_NE(entry.uuid, uuid_);
    }
}

TEST_F(PersistentBucketLossTest, ALostVBucketKeepsItsStateButIsEmpty) {
    open(fake_);
    close();  // nothing is stored yet
    std::filesystem::copy(data(), dir_.root() / "copy", std::filesystem::copy_options::recursive);
    open(fake_);
    bucket_->setVBucketState(Vbid{0}, VbState::Replica, OpTime::now());
    set("a", "1", Vbid{2});
    stopCleanly();
    replaceByCopy("shard-0");
    EXPECT_NE(refusal().find("1 documents are gone, 4 vBuckets"), std::string::npos);
    persistence_.acceptLoss = true;
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).state(), VbState::Replica);
    EXPECT_EQ(bucket_->vbucket(Vbid{2}).state(), VbState::Active);
    EXPECT_EQ(get("a", Vbid{2}), "[key not found]");
    EXPECT_EQ(bucket_->vbucket(Vbid{2}).failoverLog().entries().size(), 1U);
}

TEST_F(PersistentBucketLossTest, ACopyOfTheDirectoryBeginsANewHistory) {
    open(fake_);
    set("a", "1");
    set("b", "2");
    const auto before = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    stopCleanly();
    const auto original = dir_.root() / "original";
    std::filesystem::rename(data(), original);
    std::filesystem::copy(original, data(), std::filesystem::copy_options::recursive);
    open(fake_);
    EXPECT_EQ(get("b"), "2");
    const auto copied = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    ASSERT_EQ(copied.size(), before.size() + 1);
    EXPECT_NE(copied[0].uuid, before[0].uuid);
    EXPECT_EQ(copied[0].seqno, Seqno{2});
    EXPECT_EQ(copied[1], before[0]);
    stopCleanly();
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().entries(), copied) << "its own mark";
    close();
    std::filesystem::remove_all(data());
    std::filesystem::rename(original, data());
    open(fake_);
    EXPECT_EQ(bucket_->vbucket(Vbid{0}).failoverLog().entries(), before) << "it was only moved";
}

TEST_F(PersistentBucketLossTest, AnUnreadableMarkIsNoCleanStop) {
    open(fake_);
    set("a", "1");
    const VbUuid before = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
    stopCleanly();
    flipBit(data() / "clean", 20);
    open(fake_);
    EXPECT_FALSE(warmup_.clean);
    EXPECT_EQ(get("a"), "1");
    EXPECT_NE(bucket_->vbucket(Vbid{0}).failoverLog().uuid(), before);
}

TEST_F(PersistentBucketLossTest, StoresWithoutALayoutAreNotANewDirectory) {
    open(fake_);
    set("a", "1");
    stopCleanly();
    std::filesystem::remove(data() / "layout.json");
    EXPECT_NE(refusal().find("layout.json"), std::string::npos);
}

TEST_F(PersistentBucketLossTest, ADirectoryThatWasNeverUsedMayBeIncomplete) {
    open(fake_);  // makes stores and layout; nothing is stored
    close();
    std::filesystem::remove(data() / "layout.json");
    std::filesystem::remove_all(data() / "shard-1");
    EXPECT_EQ(refusal(), "none");
}

TEST_F(PersistentBucketLossTest, ALostStoreIsDetectedAfterACrash) {
    open(fake_);
    set("a", "1");
    fake_.advance(1s);
    close();
    std::filesystem::remove_all(data() / "shard-1");
    EXPECT_NE(refusal().find("no store"), std::string::npos);
}

TEST_F(PersistentBucketLossTest, AStoreOfAnotherDirectoryIsDetectedAfterACrash) {
    open(fake_);
    set("other", "1");
    fake_.advance(1s);
    close();
    std::filesystem::rename(data(), dir_.root() / "other");
    open(fake_);
    set("a", "1");
    fake_.advance(1s);
    const VbUuid before = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
    close();
    std::filesystem::remove_all(data() / "shard-0");
    std::filesystem::rename(dir_.root() / "other" / "shard-0", data() / "shard-0");
    for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_NE(refusal().find("another store"), std::string::npos);
    }
    persistence_.acceptLoss = true;
    open(fake_);
    EXPECT_EQ(get("other"), "1");
    const auto entries = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_NE(entries[0].uuid, before);
    EXPECT_EQ(entries[0].seqno, Seqno{0});
    close();
    persistence_.acceptLoss = false;
    EXPECT_EQ(refusal(), "none") << "the loss was accepted";
}

TEST_F(PersistentBucketLossTest, ALostLogIsDetectedAfterACrash) {
    open(fake_);
    set("a", "1");
    fake_.advance(1s);
    close();
    for (const auto& log : filesBelow(data(), ".log")) {
        std::filesystem::remove(log);
    }
    EXPECT_NE(refusal().find("write-ahead log"), std::string::npos);
    persistence_.acceptLoss = true;
    EXPECT_EQ(refusal(), "none");
    EXPECT_EQ(get("a"), "[key not found]");
}

TEST_F(PersistentBucketLossTest, AnAcceptedLossIsRememberedUntilTheNewHistoryIsStored) {
    open(fake_);
    set("a", "1");
    stopCleanly();
    open(fake_);
    set("b", "2");
    fake_.advance(1s);
    const VbUuid before = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
    close();
    for (const auto& log : filesBelow(data(), ".log")) {
        std::filesystem::remove(log);
    }
    persistence_.acceptLoss = true;
    { const PersistentBucket interrupted(config_, persistence_, fake_, factory_); }
    persistence_.acceptLoss = false;
    open(fake_);
    EXPECT_EQ(get("a"), "1");
    auto entries = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_NE(entries[0].uuid, before);
    close();  // before anything is flushed
    open(fake_);
    entries = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    EXPECT_EQ(entries.size(), 2U) << "that of the crash is on top";
    EXPECT_EQ(std::count_if(entries.begin(), entries.end(),
                            [before](const auto& entry) { return entry.uuid == before; }),
              0);
}

TEST_F(PersistentBucketLossTest, CutOffBytesAreCountedAndTheHistoryEndsBeforeThem) {
    open(fake_);
    set("a", "1");
    fake_.advance(1s);
    set("b", "2");
    fake_.advance(1s);
    const VbUuid before = bucket_->vbucket(Vbid{0}).failoverLog().uuid();
    close();
    const auto log = filesBelow(data() / "shard-0", ".log").at(0);
    flipBit(log, std::filesystem::file_size(log) - 1);
    open(fake_);
    EXPECT_GT(warmup_.cutOffBytes, 0U);
    EXPECT_EQ(get("a"), "1");
    EXPECT_EQ(get("b"), "[key not found]");
    const auto entries = bucket_->vbucket(Vbid{0}).failoverLog().entries();
    ASSERT_EQ(entries.size(), 2U);
    EXPECT_NE(entries[0].uuid, before);
    EXPECT_EQ(entries[0].seqno, Seqno{1});
}

}  // namespace
}  // namespace kv
