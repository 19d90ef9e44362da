#include "server/background_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "executor/fake_executor.h"
#include "persistence/temp_dir.h"
#include "server/engine_bucket.h"

namespace kv::server {
namespace {

using namespace std::chrono_literals;

constexpr uint16_t kVbuckets = 4;

class PurgeTask : public testing::TestWithParam<BucketType> {
  protected:
    PurgeTask() {
        line_.bucketType = GetParam();
        line_.dataDir = dir_.root();
        line_.params.bucket.vbuckets = kVbuckets;
        line_.params.bucket.ephemeralPurgeAgeS = 0;
        line_.params.bucket.persistentPurgeAgeS = 0;
    }
    [[nodiscard]] static size_t purged(const Bucket& bucket) {
        size_t count = 0;
        for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
            count += bucket.vbucket(Vbid{vb}).purgedSeqno() != Seqno{} ? 1U : 0U;
        }
        return count;
    }

    const TempDir dir_;
    CommandLine line_;
    FakeExecutor executor_;
};

TEST_P(PurgeTask, RunsInItsPoolAndDelaysNoOtherTask) {
    EngineBucket engine(line_, executor_);
    Bucket& bucket = engine.get();
    const OpTime now = OpTime::now();
    for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
        const BucketMemoryGuard guard(bucket.memory());
        bucket.store(Vbid{vb}, "gone", StoreMode::Set, "v", {}, now);
        bucket.remove(Vbid{vb}, "gone", {}, now);
        bucket.store(Vbid{vb}, "last", StoreMode::Set, "v", {}, now);
    }
    engine.startBackground({.tombstonePurge = 1h});
    executor_.advance(1s);
    ASSERT_EQ(bucket.itemsToPersist(), 0U);
    const auto tasks = executor_.stats();
    const auto task = std::find_if(tasks.begin(), tasks.end(), [](const TaskStats& each) {
        return each.name == "tombstone_purger";
    });
    ASSERT_NE(task, tasks.end());
    EXPECT_EQ(task->pool,
              GetParam() == BucketType::Persistent ? TaskPool::Writer : TaskPool::NonIO);
    EXPECT_EQ(purged(bucket), 0U);
    executor_.runTask("tombstone_purger");
    EXPECT_EQ(purged(bucket), 1U) << "of one vBucket, then it is the turn of others";
    executor_.runDue();
    EXPECT_EQ(purged(bucket), size_t{kVbuckets});
}

INSTANTIATE_TEST_SUITE_P(Both, PurgeTask,
                         testing::Values(BucketType::Ephemeral, BucketType::Persistent),
                         [](const auto& each) { return std::string(toString(each.param)); });

}  // namespace
}  // namespace kv::server
