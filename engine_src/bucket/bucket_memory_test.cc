// mem_used and the quota: freed memory is accounted to the byte, and full buckets refuse mutations.
#include <gtest/gtest.h>

#include <random>

#include "bucket/test_support.h"

namespace kv::test {

class BucketMemoryUse : public testing::TestWithParam<BucketType> {};

INSTANTIATE_TEST_SUITE_P(BothTypes, BucketMemoryUse,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& type) { return std::string(toString(type.param)); });

TEST_P(BucketMemoryUse, LoadingAndDeletingEverythingReturnsToTheStart) {
    const auto bucket = makeBucket(GetParam(), {.vbuckets = 4});
    const size_t start = bucket->memory().precise();
    EXPECT_GT(start, 0u);
    OpTime now = OpTime::now();
    std::mt19937 random(1);
    {
        const BucketMemoryGuard guard(bucket->memory());
        const auto vbidOf = [](int i) { return Vbid{static_cast<uint16_t>(i % 4)}; };
        for (int round = 0; round < 3; ++round) {
            for (int i = 0; i < 5000; ++i) {
                const std::string key = "key-" + std::to_string(i);
                ASSERT_TRUE(bucket->store(vbidOf(i), key, StoreMode::Set,
                                          std::string(random() % 700, 'x'), {}, now)
                                    .ok());
                bucket->concat(vbidOf(i), key, Concat::Append, "tail", {}, now);
            }
        }
        bucket->resizeHashTables();
        EXPECT_GT(bucket->memory().precise(), start + size_t{5000} * 350);
        bucket->flushAll(now);
    }
    for (uint16_t i = 0; i < 4; ++i) {
        if (auto* persistent = dynamic_cast<UnflushedBucket*>(bucket.get())) {
            const BucketMemoryGuard guard(bucket->memory());  // the items are freed here
            persistent->flush(Vbid{i});
        }
    }
    now = OpTime::fromNanos(now.nanos + 3'600'000'000'000);
    bucket->purgeTombstones(now);
    {
        const BucketMemoryGuard guard(bucket->memory());
        for (uint16_t i = 0; i < 4; ++i) {
            bucket->vbucket(Vbid{i}).clear({}, now);
        }
    }
    bucket->removeClosedCheckpoints(now);
    bucket->resizeHashTables();
    const BucketStats stats = bucket->stats();
    EXPECT_EQ(stats.storedValues, 0u);
    EXPECT_EQ(stats.kvSize, 0u);
    const size_t end = bucket->memory().precise();
    EXPECT_LE(end, start + size_t{4} * 2048)
            << "more than what each vBucket's fixed structures may have grown by";
    EXPECT_GE(end + size_t{4} * 2048, start);
}

TEST_P(BucketMemoryUse, ADestroyedBucketHasFreedEverything) {
    // The view from outside: a peak watch counts the whole process.
    auto bucket = makeBucket(GetParam(), {.vbuckets = 2});
    for (int i = 0; i < 100; ++i) {
        bucket->store(Vbid{0}, std::to_string(i), StoreMode::Set, "v", {}, OpTime::now());
    }
    bucket->getAndLock(Vbid{0}, "5", 10, OpTime::now());
    bucket.reset();  // ASan's leak check verifies this
}

TEST_P(BucketMemoryUse, KvSizeIsTheRequestedSize) {
    const auto bucket = makeBucket(GetParam(), {.vbuckets = 1});
    Client client(*bucket);
    client.set("key", std::string(100, 'x'));
    const size_t links = GetParam() == BucketType::Ephemeral ? 16 : 0;
    EXPECT_EQ(bucket->stats().kvSize, 40 + 3 + links + 8 + 100);
    EXPECT_EQ(bucket->stats().valueSize, 108u);
}

TEST_P(BucketMemoryUse, AFullBucketRefusesUntilMemoryIsFree) {
    const auto bucket = makeBucket(GetParam(), {.quotaBytes = 4 << 20, .vbuckets = 1});
    Client client(*bucket);
    const std::string value(10'000, 'x');
    OpResult result;
    int stored = 0;
    while ((result = client.set("k" + std::to_string(stored), value)).ok()) {
        ++stored;
        ASSERT_LT(stored, 1000);
    }
    EXPECT_GT(stored, 100);
    EXPECT_LE(bucket->memory().precise(),
              bucket->mutationThresholdBytes() + 2 * (value.size() + 4096));
    // Persistent: the flusher will free the checkpoints. Ephemeral: nothing will.
    const bool persistent = GetParam() == BucketType::Persistent;
    EXPECT_EQ(result.status, persistent ? OpStatus::TmpFail : OpStatus::NoMemory);
    EXPECT_EQ(bucket->counters().tmpOomErrors, persistent ? 1u : 0u);
    EXPECT_EQ(bucket->counters().oomErrors, persistent ? 0u : 1u);
    EXPECT_EQ(client.concat("k0", Concat::Append, value).status, result.status);
    int small = 0;
    while (client.set("s" + std::to_string(small), "").ok()) {
        ASSERT_LT(++small, 10'000);
    }
    EXPECT_EQ(client.touch("k0", 1'900'000'000).status, result.status);
    EXPECT_EQ(client.getAndTouch("k0", 1'900'000'000).status, result.status);
    // Reading and deleting continue to work.
    while (--small >= 0) {
        EXPECT_TRUE(client.remove("s" + std::to_string(small)).ok());
    }
    EXPECT_TRUE(client.get("k0").ok());
    for (int i = 0; i < stored; ++i) {
        EXPECT_TRUE(client.remove("k" + std::to_string(i)).ok());
    }
    if (auto* unflushed = dynamic_cast<UnflushedBucket*>(bucket.get())) {
        unflushed->flush(Vbid{0});
        client.vb().checkpoints().removal().expel();
    }
    client.wait(3600);
    bucket->purgeTombstones(client.now);
    bucket->removeClosedCheckpoints(client.now);
    EXPECT_TRUE(client.set("again", value).ok());
}

TEST_P(BucketMemoryUse, ARaisedQuotaAdmitsAgain) {
    const auto bucket = makeBucket(GetParam(), {.quotaBytes = 1 << 20, .vbuckets = 1});
    Client client(*bucket);
    const std::string value(2 << 20, 'x');
    EXPECT_FALSE(client.set("k", value).ok());
    bucket->setQuota(16 << 20);
    EXPECT_TRUE(client.set("k", value).ok());
    EXPECT_EQ(bucket->lowWatermarkBytes(), size_t{12} << 20);
}

TEST_P(BucketMemoryUse, DocumentsThatWillExpireMakeTheFailureTemporary) {
    const auto bucket = makeBucket(GetParam(), {.quotaBytes = 1 << 20, .vbuckets = 1});
    Client client(*bucket);
    client.set("short", "v", {.exptime = client.now.seconds + 10});
    EXPECT_EQ(client.set("k", std::string(2 << 20, 'x')).status, OpStatus::TmpFail);
}

}  // namespace kv::test
