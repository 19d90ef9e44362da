// Makes each allocation of operations that empty a persistent vBucket fail once: store and memory
// keep having the same documents.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>

#include "bucket/persistent_bucket.h"
#include "executor/fake_executor.h"
#include "memory/failing_heap.h"
#include "persistence/forwarding_store.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

/// Allocations of the store itself never fail here; they are RocksDB's business.
class SparedStore final : public ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;

    bool delVBucket(Vbid vbid, const PersistedVbState& state) override {
        return spared([&] { return ForwardingStore::delVBucket(vbid, state); });
    }
    bool rollback(Vbid vbid, Seqno seqno) override {
        return spared([&] { return ForwardingStore::rollback(vbid, seqno); });
    }

  private:
    template <class Work>
    static bool spared(const Work& work) {
        const long left = std::exchange(allocationsLeft, -1);
        const bool done = work();
        allocationsLeft = left;
        return done;
    }
};

class PersistentAllocationFailure : public testing::Test {
  protected:
    static constexpr Vbid kVb{0};

    PersistentAllocationFailure() {
        BucketConfig config;
        config.vbuckets = 1;
        PersistenceConfig persistence;
        persistence.dataDir = dir_.path();
        bucket_ = std::make_unique<PersistentBucket>(
                config, persistence, executor_, [&persistence](const std::string& path) {
                    return std::make_unique<SparedStore>(
                            std::make_unique<RocksStore>(path, persistence.rocks));
                });
        bucket_->setVBucketState(kVb, VbState::Active, OpTime::now());
        bucket_->startFlushing();
        for (const char* key : {"a", "b", "c"}) {
            bucket_->store(kVb, key, StoreMode::Set, "value", {}, OpTime::now());
        }
        executor_.advance(std::chrono::seconds(1));
    }
    /// Runs `empty` with its first, second, ... allocation failing until none fails any more.
    /// Returns how many failed.
    template <class Empty>
    long failEach(VbState state, Empty empty) {
        bucket_->setVBucketState(kVb, state, OpTime::now());
        for (long nth = 0;; ++nth) {
            const bool failed = runsOutOfMemory(nth, empty);
            const VBucket& vbucket = bucket_->vbucket(kVb);
            const size_t left = failed ? 3 : 0;
            EXPECT_EQ(vbucket.state(), state) << "allocation " << nth;
            EXPECT_EQ(vbucket.hashTable().entries(), left) << "allocation " << nth;
            EXPECT_EQ(vbucket.highSeqno(), Seqno{left}) << "allocation " << nth;
            EXPECT_EQ(bucket_->storeOf(kVb).countLive(kVb), left) << "allocation " << nth;
            if (!failed || HasFailure()) {
                return nth;
            }
        }
    }

    TempDir dir_;
    FakeExecutor executor_;
    std::unique_ptr<PersistentBucket> bucket_;
};

TEST_F(PersistentAllocationFailure, AtTheDeletionOfAVBucket) {
    const auto remove = [&] { bucket_->deleteVBucket(kVb, OpTime::now()); };
    EXPECT_GE(failEach(VbState::Dead, remove), 2);
}

TEST_F(PersistentAllocationFailure, AtAResync) {
    const auto reset = [&] {
        const uint64_t term = bucket_->vbucket(kVb).term();
        bucket_->rollBackReplica(kVb, term, Seqno{0}, OpTime::now());
    };
    EXPECT_GE(failEach(VbState::Replica, reset), 2);
}

}  // namespace
}  // namespace kv
