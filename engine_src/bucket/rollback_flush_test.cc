// A rollback of a replica at the same time as its flush: a replica is dead while it is rolled back,
// and that state must not be stored.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "bucket/persistent_bucket.h"
#include "executor/fake_executor.h"
#include "persistence/faulty_store.h"
#include "persistence/forwarding_store.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

constexpr Vbid kVb{0};

/// Records each state that it is asked to store.
class NotingStore final : public ForwardingStore {
  public:
    NotingStore(std::unique_ptr<KVStore> real, std::set<VbState>& states,
                const std::function<void()>& beforeCommit)
        : ForwardingStore(std::move(real)), states_(states), beforeCommit_(beforeCommit) {}

    void end(const PersistedVbState& state) override {
        note(state);
        ForwardingStore::end(state);
    }
    bool commit() override {
        beforeCommit_();
        return ForwardingStore::commit();
    }
    bool saveVbState(Vbid vbid, const PersistedVbState& state) override {
        note(state);
        return ForwardingStore::saveVbState(vbid, state);
    }
    bool delVBucket(Vbid vbid, const PersistedVbState& left) override {
        note(left);
        return ForwardingStore::delVBucket(vbid, left);
    }

  private:
    void note(const PersistedVbState& state) {
        const std::scoped_lock lock(mutex_);
        states_.insert(static_cast<VbState>(state.state));
    }
    std::mutex mutex_;
    std::set<VbState>& states_;
    const std::function<void()>& beforeCommit_;
};

class RollbackFlushTest : public testing::Test {
  protected:
    RollbackFlushTest() {
        BucketConfig config;
        config.vbuckets = 1;
        config.checkpoint.maxItems = 1;
        PersistenceConfig persistence;
        persistence.dataDir = dir_.path();
        persistence.shards = 1;
        persistence.rocks = {.writeBufferBytes = 1 << 20, .blockCacheBytes = 1 << 20};
        persistence.flusher.batchItems = 1;
        bucket_ = std::make_unique<PersistentBucket>(
                config, persistence, executor_, [this, persistence](const std::string& path) {
                    auto store = std::make_unique<NotingStore>(
                            std::make_unique<RocksStore>(path, persistence.rocks), states_,
                            beforeCommit_);
                    return std::make_unique<FaultyStore>(std::move(store), faults_);
                });
        bucket_->warmUp();
        bucket_->setVBucketState(kVb, VbState::Replica, OpTime::now());
    }

    void receive(uint64_t seqno) {
        const BucketMemoryGuard guard(bucket_->memory());
        VBucket& replica = bucket_->vbucket(kVb);
        const OpTime now = OpTime::now();
        ASSERT_EQ(replica.beginReplicated(replica.term(), {Seqno{seqno}, Seqno{seqno}},
                                          CheckpointType::Memory, now),
                  OpStatus::Ok);
        ASSERT_EQ(replica.applyReplicated(replica.term(), "key" + std::to_string(seqno),
                                          ItemOp::Mutation,
                                          {.cas = Cas{seqno}, .seqno = Seqno{seqno}, .revSeqno = 1},
                                          Blob::create("value"), now),
                  OpStatus::Ok);
    }

    /// Waits as the thread does that waits for this flush; many follow.
    static void waitUntilItSleeps(pid_t thread) {
        const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
        const auto limit = std::chrono::steady_clock::now() + 5min;
        for (std::string id, name, state; state != "S";) {
            std::ifstream(path) >> id >> name >> state;
            ASSERT_LT(std::chrono::steady_clock::now(), limit);
            std::this_thread::yield();
        }
    }

    TempDir dir_;
    FakeExecutor executor_;
    std::set<VbState> states_;
    std::function<void()> beforeCommit_{[] {}};
    const std::shared_ptr<StoreFaults> faults_{std::make_shared<StoreFaults>()};
    std::unique_ptr<PersistentBucket> bucket_;
};

TEST_F(RollbackFlushTest, NoFlushStoresThatTheReplicaIsDead) {
    constexpr uint64_t kDocuments = 40;
    for (uint64_t seqno = 1; seqno <= kDocuments; ++seqno) {
        receive(seqno);
    }
    VBucket& replica = bucket_->vbucket(kVb);
    Bucket::RollBack result{};
    std::thread rolling;
    beforeCommit_ = [&] {
        if (rolling.joinable()) {
            return;
        }
        std::promise<pid_t> begun;
        rolling = std::thread([&] {
            begun.set_value(gettid());
            result = bucket_->rollBackReplica(kVb, replica.term(), Seqno{kDocuments / 2},
                                              OpTime::now());
        });
        waitUntilItSleeps(begun.get_future().get());
    };
    bucket_->persistAll();
    ASSERT_TRUE(rolling.joinable()) << "something was stored";
    rolling.join();
    EXPECT_EQ(result, Bucket::RollBack::Done);
    EXPECT_EQ(replica.state(), VbState::Replica);
    EXPECT_EQ(states_, std::set<VbState>{VbState::Replica});
}

/// What could not be removed from the store is not the replica's any more, so that nothing may be
/// loaded from there.
TEST_F(RollbackFlushTest, ARollbackAfterOneThatLeftDocumentsInTheStoreStartsOver) {
    bucket_->startFlushing();
    VBucket& replica = bucket_->vbucket(kVb);
    for (uint64_t seqno = 1; seqno <= 6; ++seqno) {
        receive(seqno);
        executor_.advance(1s);
    }
    ASSERT_EQ(bucket_->itemsToPersist(), 0U);
    const auto rollBack = [&](uint64_t seqno) {
        return bucket_->rollBackReplica(kVb, replica.term(), Seqno{seqno}, OpTime::now());
    };
    const auto documents = [&] { return replica.hashTable().sums().items; };
    faults_->failScans = 1;
    faults_->failDeletes = 2;
    ASSERT_EQ(rollBack(5), Bucket::RollBack::Done);
    ASSERT_EQ(documents(), 0) << "it is loaded again, and the store still has 5 documents";
    for (uint64_t seqno = 1; seqno <= 4; ++seqno) {
        receive(seqno);
    }
    EXPECT_EQ(rollBack(3), Bucket::RollBack::Done);
    EXPECT_EQ(faults_->failDeletes, 0) << "and is still not empty";
    EXPECT_EQ(documents(), 0);
    for (uint64_t seqno = 1; seqno <= 4; ++seqno) {
        receive(seqno);
    }
    EXPECT_EQ(rollBack(2), Bucket::RollBack::Done);
    EXPECT_EQ(documents(), 0);
    receive(1);
    executor_.advance(10s);
    EXPECT_EQ(bucket_->itemsToPersist(), 0U);
    EXPECT_EQ(bucket_->storeOf(kVb).countLive(kVb), 1U);
    EXPECT_EQ(bucket_->persistedSeqno(kVb), Seqno{1});
    receive(2);
    executor_.advance(10s);
    EXPECT_EQ(bucket_->storeOf(kVb).countLive(kVb), 2U);
}

}  // namespace
}  // namespace kv
