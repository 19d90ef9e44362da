// The flusher's task: when a pass begins, which vBuckets it takes, and which share a write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "persistence/flusher.h"
#include "persistence/flusher_test_support.h"

namespace kv {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing_support::MemoryStore;
using testing_support::ScriptedTarget;

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

TEST_F(FlusherTaskTest, APartOfAWriteHasALimitOfBytesAndTheRestComesInTheNextPass) {
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

TEST_F(FlusherTaskTest, AFailureIsRetriedLaterWithoutForgettingAVBucket) {
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

TEST_F(FlusherTaskTest, TheRestAfterTheBatchLimitComesNext) {
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
TEST_F(FlusherTaskTest, AVBucketWhoseStoreThrowsIsTriedAgain) {
    write(0);
    targets_[0]->throwAtPrepare = 1;
    run(0s);
    EXPECT_EQ(flusher_.dirtyVBuckets(), 1U);
    run(1s);
    EXPECT_EQ(flusher_.dirtyVBuckets(), 0U);
    EXPECT_EQ(store_.docs.size(), 1U);
}

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

TEST_F(FlusherGroupTest, AReadErrorAffectsOnlyItsVBucket) {
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

TEST_F(FlusherGroupTest, UnreadableVBucketsDoNotKeepOthersFromTheDisk) {
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

TEST_F(FlusherGroupTest, AWriteHasALimitedNumberOfVBuckets) {
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

TEST_F(FlusherGroupTest, VBucketsDoNotWaitForABlockedOne) {
    targets_[2]->onWait = [this] {
        EXPECT_EQ(store_.commits, 1) << "what was taken before is stored";
        EXPECT_TRUE(targets_[0]->lockForFlush().owns_lock());
    };
    EXPECT_TRUE(flush());
    EXPECT_FALSE(targets_[2]->onWait) << "it was waited for";
    EXPECT_EQ(store_.commits, 2);
    EXPECT_EQ(store_.docs.size(), 4U);
}

TEST_F(FlusherGroupTest, AMutationDuringAWriteIsStoredByTheNext) {
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

}  // namespace
}  // namespace kv
