#include "server/engine_bucket.h"

#include <gtest/gtest.h>

#include "executor/fake_executor.h"
#include "persistence/temp_dir.h"

namespace kv::server {
namespace {

using namespace std::chrono_literals;

class EngineBucketTest : public testing::Test {
  protected:
    EngineBucketTest() {
        line_.dataDir = dir_.root();
        line_.params.bucket.vbuckets = 4;
    }

    const TempDir dir_;
    CommandLine line_;
    FakeExecutor executor_;
};

TEST_F(EngineBucketTest, NothingIsQueuedAfterTheLastFlush) {
    EngineBucket bucket(line_, executor_);
    bucket.startBackground({.expiry = 1s});
    auto now = OpTime::now();
    bucket.get().store(Vbid{0}, "soon gone", StoreMode::Set, "v", {.exptime = now.seconds - 1},
                       now);
    EXPECT_TRUE(bucket.persistAll());
    // The pager would find the document expired and queue its deletion while the engine stops.
    executor_.advance(10s);
    EXPECT_EQ(bucket.get().counters().expiredByPass.load(), 0u);
    EXPECT_EQ(bucket.get().itemsToPersist(), 0u);
}

}  // namespace
}  // namespace kv::server
