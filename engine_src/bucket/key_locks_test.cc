// Locks of keys (GET_LOCKED), for both bucket types.
#include <gtest/gtest.h>

#include <string>

#include "bucket/test_support.h"

namespace kv::test {

class KeyLocksTest : public testing::TestWithParam<BucketType> {
  public:
    std::unique_ptr<Bucket> bucket = makeBucket(GetParam(), {.vbuckets = 2});
    Client client{*bucket};
};

INSTANTIATE_TEST_SUITE_P(BothTypes, KeyLocksTest,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& type) { return std::string(toString(type.param)); });

TEST_P(KeyLocksTest, ALockedKeyRefusesEverybodyButTheHolder) {
    const OpResult stored = client.set("k", "v");
    const OpResult held = client.getAndLock("k", 10);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(held.value.view(), "v");
    EXPECT_NE(held.cas, stored.cas);
    EXPECT_EQ(client.get("k").cas, Cas{UINT64_MAX});
    EXPECT_EQ(client.getAndLock("k", 10).status, OpStatus::Locked);
    EXPECT_EQ(client.set("k", "x").status, OpStatus::Locked);
    EXPECT_EQ(client.set("k", "x", {.cas = stored.cas}).status, OpStatus::Locked);
    EXPECT_EQ(client.replace("k", "x").status, OpStatus::Locked);
    EXPECT_EQ(client.add("k", "x").status, OpStatus::KeyExists);
    EXPECT_EQ(client.concat("k", Concat::Append, "x").status, OpStatus::Locked);
    EXPECT_EQ(client.arithmetic("k", {}).status, OpStatus::Locked);
    EXPECT_EQ(client.remove("k").status, OpStatus::Locked);
    EXPECT_EQ(client.touch("k", 1).status, OpStatus::Locked);
    EXPECT_EQ(client.getAndTouch("k", 1).status, OpStatus::Locked);
    EXPECT_EQ(client.unlock("k", stored.cas).status, OpStatus::Locked);
    const OpResult changed = client.set("k", "mine", {.cas = held.cas});
    EXPECT_TRUE(changed.ok());
    EXPECT_EQ(client.get("k").cas, changed.cas);
    EXPECT_TRUE(client.set("k", "free").ok());
}

TEST_P(KeyLocksTest, ALockOutlivesAStateThatStaysAsItIs) {
    client.set("k", "v");
    const OpResult held = client.getAndLock("k", 10);
    bucket->setVBucketState(Vbid{0}, VbState::Active, client.now);
    EXPECT_EQ(client.set("k", "x").status, OpStatus::Locked);
    EXPECT_TRUE(client.unlock("k", held.cas).ok());
    EXPECT_TRUE(client.getAndLock("k", 10).ok());
    bucket->setVBucketState(Vbid{0}, VbState::Pending, client.now);
    bucket->setVBucketState(Vbid{0}, VbState::Active, client.now);
    EXPECT_TRUE(client.set("k", "x").ok()) << "locks are not replicated: a new active has none";
}

TEST_P(KeyLocksTest, ALockEndsByUnlockAndByTime) {
    const OpResult stored = client.set("k", "v");
    EXPECT_EQ(client.unlock("k", stored.cas).status, OpStatus::NotLocked);
    EXPECT_EQ(client.unlock("none", stored.cas).status, OpStatus::KeyNotFound);
    const OpResult first = client.getAndLock("k", 10);
    EXPECT_TRUE(client.unlock("k", first.cas).ok());
    EXPECT_EQ(client.get("k").cas, stored.cas);
    const OpResult second = client.getAndLock("k", 0);  // 0 = the default, 15 s
    EXPECT_NE(second.cas, first.cas);
    client.wait(14);
    EXPECT_EQ(client.set("k", "x").status, OpStatus::Locked);
    client.wait(1);
    EXPECT_EQ(client.set("k", "x", {.cas = second.cas}).status, OpStatus::KeyExists);
    EXPECT_TRUE(client.set("k", "x").ok());
    EXPECT_TRUE(client.remove("k").ok());
}

TEST_P(KeyLocksTest, ASetWallClockNeitherEndsNorExtendsALock) {
    client.set("k", "v");
    ASSERT_TRUE(client.getAndLock("k", 10).ok());
    client.setWallClock(3600);
    client.wait(9);
    EXPECT_EQ(client.set("k", "x").status, OpStatus::Locked);
    client.setWallClock(-7200);
    EXPECT_EQ(client.set("k", "x").status, OpStatus::Locked);
    client.wait(1);
    EXPECT_TRUE(client.set("k", "x").ok());
}

TEST_P(KeyLocksTest, ALockHasACasThatNoMutationHas) {
    client.set("k", "v");
    const OpResult held = client.getAndLock("k", 10);
    EXPECT_GE(held.cas, Cas{kCasBound});
    EXPECT_NE(held.cas, Cas{~uint64_t{0}}) << "what others see";
    EXPECT_LT(client.set("k", "mine", {.cas = held.cas}).cas, Cas{kCasBound});
    EXPECT_NE(client.getAndLock("k", 10).cas, held.cas);
}

TEST_P(KeyLocksTest, ALockFromBeforeARestartDoesNotOpenALaterOne) {
    client.set("k", "v");
    const OpResult before = client.getAndLock("k", 10);
    const auto restarted = makeBucket(GetParam(), bucket->config());
    Client after(*restarted);
    after.now = client.now;  // the clock was set back in the meantime
    after.set("k", "v");
    const OpResult held = after.getAndLock("k", 10);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(after.set("k", "x", {.cas = before.cas}).status, OpStatus::Locked);
    EXPECT_EQ(after.unlock("k", before.cas).status, OpStatus::Locked);
}

TEST_P(KeyLocksTest, TheLockOfADocumentThatExpiresIsForgotten) {
    const auto lockOne = [&](const std::string& key) {
        client.set(key, "v", {.exptime = client.now.seconds + 5});
        EXPECT_TRUE(client.getAndLock(key, 30).ok());
    };
    lockOne("read");
    lockOne("stored");
    lockOne("passed");
    EXPECT_EQ(client.vb().keyLocks().size(), 3u);
    client.wait(5);
    EXPECT_EQ(client.get("read").status, OpStatus::KeyNotFound);
    EXPECT_TRUE(client.set("stored", "v").ok());
    EXPECT_EQ(bucket->expirePass(client.now), 1u);
    EXPECT_EQ(client.vb().keyLocks().size(), 0u);
}

TEST_P(KeyLocksTest, LocksThatRanOutDoNotPileUp) {
    size_t most = 0;
    for (int round = 0; round < 50; ++round) {
        for (int key = 0; key < 100; ++key) {
            const std::string name = std::to_string(round) + "-" + std::to_string(key);
            client.set(name, "v");
            ASSERT_TRUE(client.getAndLock(name, 1).ok());
        }
        client.wait(1);
        most = std::max(most, client.vb().keyLocks().size());
    }
    EXPECT_LE(most, 300u);
}

TEST_P(KeyLocksTest, ThePassForgetsLocksThatRanOut) {
    client.set("k", "v");
    client.set("held", "v");
    ASSERT_TRUE(client.getAndLock("k", 10).ok());
    ASSERT_TRUE(client.getAndLock("held", 20).ok());
    client.wait(10);
    bucket->expirePass(client.now);
    EXPECT_EQ(client.vb().keyLocks().size(), 1u);
    EXPECT_TRUE(client.set("k", "x").ok());
    EXPECT_EQ(client.set("held", "x").status, OpStatus::Locked);
}

TEST_P(KeyLocksTest, AFullBucketTakesNoLocks) {
    client.set("k", "v");
    client.set("held", "v");
    ASSERT_TRUE(client.getAndLock("held", 10).ok());
    bucket->setQuota(1);
    EXPECT_EQ(client.getAndLock("k", 10).status, OpStatus::TmpFail);
    EXPECT_EQ(client.vb().keyLocks().size(), 1u);
    EXPECT_EQ(client.set("new", "v").status, OpStatus::TmpFail) << "until the lock runs out";
}

}  // namespace kv::test
