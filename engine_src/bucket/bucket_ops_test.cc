// Semantics of every operation, for both bucket types.
#include <gtest/gtest.h>

#include <set>

#include "bucket/test_support.h"

namespace kv::test {

class BucketOps : public testing::TestWithParam<BucketType> {
  public:
    std::unique_ptr<Bucket> bucket = makeBucket(GetParam(), {.vbuckets = 2});
    Client client{*bucket};
};

INSTANTIATE_TEST_SUITE_P(BothTypes, BucketOps,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& type) { return std::string(toString(type.param)); });

TEST_P(BucketOps, SetThenGetReturnsEverything) {
    const OpResult stored =
            client.set("k", "value", {.flags = 7, .exptime = 1'800'000'000, .datatype = 1});
    ASSERT_TRUE(stored.ok());
    EXPECT_NE(stored.cas, Cas{});
    EXPECT_EQ(stored.seqno, Seqno{1});
    EXPECT_EQ(stored.vbuuid, client.vb().failoverLog().uuid());
    const OpResult got = client.get("k");
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value.view(), "value");
    EXPECT_EQ(got.flags, 7u);
    EXPECT_EQ(got.exptime, 1'800'000'000u);
    EXPECT_EQ(got.datatype, 1);
    EXPECT_EQ(got.cas, stored.cas);
    EXPECT_EQ(got.seqno, stored.seqno);
}

TEST_P(BucketOps, GetSharesTheValueAndKeepsItAfterAChange) {
    client.set("k", "old");
    const OpResult first = client.get("k");
    EXPECT_EQ(client.get("k").value.get(), first.value.get());
    client.set("k", "new");
    EXPECT_EQ(first.value.view(), "old");
    EXPECT_EQ(client.valueOf("k"), "new");
}

TEST_P(BucketOps, AnEmptyValueIsADocument) {
    ASSERT_TRUE(client.set("k", "").ok());
    EXPECT_EQ(client.valueOf("k"), "");
    EXPECT_EQ(bucket->stats().items, 1u);
}

TEST_P(BucketOps, CasAndSeqnoAlwaysGrow) {
    Cas cas;
    Seqno seqno;
    for (int i = 0; i < 100; ++i) {
        const OpResult result = client.set("k" + std::to_string(i % 7), "v");
        EXPECT_GT(result.cas, cas);
        EXPECT_EQ(result.seqno, next(seqno));
        cas = result.cas;
        seqno = result.seqno;
    }
}

TEST_P(BucketOps, CasFollowsTheClockAndStillRisesWhenItIsSetBack) {
    const OpResult first = client.set("k", "v");
    EXPECT_GE(first.cas.get(), client.now.nanos);
    client.now = OpTime::fromNanos(client.now.nanos - 5'000'000'000);
    EXPECT_GT(client.set("k", "v").cas, first.cas);
}

TEST_P(BucketOps, SetWithCas) {
    EXPECT_EQ(client.set("k", "v", {.cas = Cas{5}}).status, OpStatus::KeyNotFound);
    const Cas cas = client.set("k", "1").cas;
    EXPECT_EQ(client.set("k", "2", {.cas = Cas{cas.get() + 1}}).status, OpStatus::KeyExists);
    EXPECT_TRUE(client.set("k", "2", {.cas = cas}).ok());
    EXPECT_EQ(client.set("k", "3", {.cas = cas}).status, OpStatus::KeyExists);
    EXPECT_EQ(client.valueOf("k"), "2");
    client.remove("k");
    EXPECT_EQ(client.set("k", "4", {.cas = cas}).status, OpStatus::KeyNotFound);
}

TEST_P(BucketOps, AddOnlyMissingAndReplaceOnlyPresent) {
    EXPECT_EQ(client.replace("k", "v").status, OpStatus::KeyNotFound);
    EXPECT_TRUE(client.add("k", "1").ok());
    EXPECT_EQ(client.add("k", "2").status, OpStatus::KeyExists);
    EXPECT_TRUE(client.replace("k", "3").ok());
    EXPECT_EQ(client.valueOf("k"), "3");
    EXPECT_EQ(client.replace("k", "4", {.cas = Cas{1}}).status, OpStatus::KeyExists);
    client.remove("k");
    EXPECT_EQ(client.replace("k", "5").status, OpStatus::KeyNotFound);
    EXPECT_TRUE(client.add("k", "6").ok());
    EXPECT_EQ(client.valueOf("k"), "6");
}

TEST_P(BucketOps, AppendAndPrepend) {
    EXPECT_EQ(client.concat("k", Concat::Append, "x").status, OpStatus::NotStored);
    const Cas cas = client.set("k", "b", {.flags = 3, .exptime = 1'800'000'000, .datatype = 1}).cas;
    EXPECT_EQ(client.concat("k", Concat::Append, "c", Cas{1}).status, OpStatus::KeyExists);
    EXPECT_TRUE(client.concat("k", Concat::Append, "c", cas).ok());
    EXPECT_TRUE(client.concat("k", Concat::Prepend, "a").ok());
    const OpResult got = client.get("k");
    EXPECT_EQ(got.value.view(), "abc");
    EXPECT_EQ(got.flags, 3u);
    EXPECT_EQ(got.exptime, 1'800'000'000u);
    EXPECT_EQ(got.datatype, 0);
}

TEST_P(BucketOps, ArithmeticCreatesIncrementsAndFloors) {
    EXPECT_EQ(client.arithmetic("k", {.delta = 1}).status, OpStatus::KeyNotFound);
    EXPECT_EQ(client.arithmetic("k", {.delta = 5, .initial = 10, .createIfMissing = true}).number,
              10u);
    EXPECT_EQ(client.arithmetic("k", {.delta = 5, .initial = 10, .createIfMissing = true}).number,
              15u);
    EXPECT_EQ(client.valueOf("k"), "15");
    EXPECT_EQ(client.arithmetic("k", {.delta = 3, .increment = false}).number, 12u);
    EXPECT_EQ(client.arithmetic("k", {.delta = 50, .increment = false}).number, 0u);
    EXPECT_EQ(client.valueOf("k"), "0");
}

TEST_P(BucketOps, ArithmeticWrapsAndRefusesNonNumbers) {
    client.set("k", "18446744073709551615", {.flags = 9});
    const OpResult wrapped = client.arithmetic("k", {.delta = 2});
    EXPECT_EQ(wrapped.number, 1u);
    EXPECT_EQ(client.get("k").flags, 9u);
    for (const std::string bad : {"abc", "", " ", "1x", "-1", "18446744073709551616", "1.5"}) {
        client.set("bad", bad);
        EXPECT_EQ(client.arithmetic("bad", {}).status, OpStatus::DeltaBadValue) << bad;
    }
    client.set("indented", " 1");  // as strtoull accepts it
    EXPECT_EQ(client.arithmetic("indented", {}).number, 2u);
    client.set("padded", "41  ");
    EXPECT_EQ(client.arithmetic("padded", {}).number, 42u);
    EXPECT_EQ(client.arithmetic("padded", {.cas = Cas{1}}).status, OpStatus::KeyExists);
    EXPECT_EQ(client.arithmetic("none", {.createIfMissing = true, .cas = Cas{1}}).status,
              OpStatus::KeyNotFound);
}

TEST_P(BucketOps, RemoveLeavesATombstoneThatOnlyMetaShows) {
    EXPECT_EQ(client.remove("k").status, OpStatus::KeyNotFound);
    const Cas cas = client.set("k", "v").cas;
    EXPECT_EQ(client.remove("k", Cas{1}).status, OpStatus::KeyExists);
    const OpResult removed = client.remove("k", cas);
    EXPECT_TRUE(removed.ok());
    EXPECT_EQ(removed.seqno, Seqno{2});
    EXPECT_EQ(client.valueOf("k"), "[key not found]");
    EXPECT_EQ(client.remove("k").status, OpStatus::KeyNotFound);
    const OpResult meta = client.getMeta("k");
    ASSERT_TRUE(meta.ok());
    EXPECT_TRUE(meta.deleted);
    EXPECT_EQ(meta.number, 2u);
    EXPECT_EQ(meta.exptime, client.now.seconds);
    EXPECT_EQ(bucket->stats().items, 0u);
    EXPECT_EQ(bucket->stats().tombstones, 1u);
}

TEST_P(BucketOps, TouchIsAMutationUnlessNothingChanges) {
    EXPECT_EQ(client.touch("k", 0).status, OpStatus::KeyNotFound);
    const OpResult stored = client.set("k", "v", {.flags = 4});
    const OpResult touched = client.touch("k", client.now.seconds + 100);
    EXPECT_GT(touched.cas, stored.cas);
    EXPECT_EQ(touched.seqno, Seqno{2});
    EXPECT_FALSE(touched.value);
    const OpResult same = client.touch("k", client.now.seconds + 100);
    EXPECT_EQ(same.cas, touched.cas);
    EXPECT_EQ(same.seqno, Seqno{2});
    const OpResult got = client.getAndTouch("k", client.now.seconds + 200);
    EXPECT_EQ(got.value.view(), "v");
    EXPECT_EQ(got.flags, 4u);
    EXPECT_EQ(got.exptime, client.now.seconds + 200);
    EXPECT_EQ(got.seqno, Seqno{3});
    client.wait(201);
    EXPECT_EQ(client.getAndTouch("k", 0).status, OpStatus::KeyNotFound);
}

TEST_P(BucketOps, AnExpiredDocumentIsGoneOnAccess) {
    client.set("k", "v", {.exptime = client.now.seconds + 10});
    client.wait(9);
    EXPECT_EQ(client.valueOf("k"), "v");
    client.wait(1);
    EXPECT_EQ(client.valueOf("k"), "[key not found]");
    EXPECT_EQ(client.vb().highSeqno(), Seqno{2});
    EXPECT_EQ(bucket->counters().expiredOnAccess, 1u);
    const auto guard = client.vb().hashTable().lock("k");
    EXPECT_EQ(client.vb().hashTable().find(guard, "k")->op(), ItemOp::Expiration);
}

TEST_P(BucketOps, EveryOperationTreatsExpiredAsMissing) {
    const auto expired = [&](std::string_view key) {
        client.set(key, "1", {.exptime = client.now.seconds + 1});
        client.wait(2);
    };
    expired("add");
    EXPECT_TRUE(client.add("add", "v").ok());
    expired("replace");
    EXPECT_EQ(client.replace("replace", "v").status, OpStatus::KeyNotFound);
    expired("append");
    EXPECT_EQ(client.concat("append", Concat::Append, "v").status, OpStatus::NotStored);
    expired("incr");
    EXPECT_EQ(client.arithmetic("incr", {.initial = 9, .createIfMissing = true}).number, 9u);
    expired("remove");
    EXPECT_EQ(client.remove("remove").status, OpStatus::KeyNotFound);
    expired("touch");
    EXPECT_EQ(client.touch("touch", 0).status, OpStatus::KeyNotFound);
    expired("set");
    EXPECT_TRUE(client.set("set", "v").ok());
    expired("lock");
    EXPECT_EQ(client.getAndLock("lock", 5).status, OpStatus::KeyNotFound);
    EXPECT_EQ(bucket->stats().items, 3u);
}

TEST_P(BucketOps, ExpirePassExpiresUntouchedDocuments) {
    for (int i = 0; i < 10; ++i) {
        client.set("k" + std::to_string(i), "v", {.exptime = i < 6 ? client.now.seconds + 5 : 0});
    }
    EXPECT_EQ(bucket->expirePass(client.now), 0u);
    client.wait(5);
    EXPECT_EQ(bucket->stats().expiring, 6u);
    EXPECT_EQ(bucket->expirePass(client.now), 6u);
    EXPECT_EQ(bucket->expirePass(client.now), 0u);
    EXPECT_EQ(bucket->stats().items, 4u);
    EXPECT_EQ(bucket->counters().expiredByPass, 6u);
}

TEST_P(BucketOps, OperationsNeedAnActiveVBucket) {
    const Vbid other{1};
    for (const auto state : {VbState::Replica, VbState::Pending, VbState::Dead}) {
        bucket->setVBucketState(other, state, client.now);
        EXPECT_EQ(bucket->get(other, "k", client.now).status, OpStatus::NotMyVbucket);
        EXPECT_EQ(bucket->store(other, "k", StoreMode::Set, "v", {}, client.now).status,
                  OpStatus::NotMyVbucket);
        EXPECT_EQ(bucket->remove(other, "k", {}, client.now).status, OpStatus::NotMyVbucket);
    }
    const Vbid outside{2};
    EXPECT_EQ(bucket->get(outside, "k", client.now).status, OpStatus::NotMyVbucket);
    EXPECT_EQ(bucket->store(outside, "k", StoreMode::Set, "v", {}, client.now).status,
              OpStatus::NotMyVbucket);
    EXPECT_EQ(bucket->touch(outside, "k", 0, client.now).status, OpStatus::NotMyVbucket);
    EXPECT_EQ(bucket->setVBucketState(outside, VbState::Active, client.now),
              OpStatus::NotMyVbucket);
}

TEST_P(BucketOps, LimitsOfKeyAndValue) {
    const std::string longKey(250, 'k');
    EXPECT_TRUE(client.set(longKey, "v").ok());
    EXPECT_EQ(client.valueOf(longKey), "v");
    EXPECT_EQ(client.set(longKey + 'k', "v").status, OpStatus::TooBig);
    EXPECT_EQ(client.set("", "v").status, OpStatus::Invalid);
    const std::string large(bucket->config().maxValueBytes, 'x');
    EXPECT_TRUE(client.set("large", large).ok());
    EXPECT_EQ(client.set("large", large + 'x').status, OpStatus::TooBig);
    EXPECT_EQ(client.concat("large", Concat::Append, "x").status, OpStatus::TooBig);
}

TEST_P(BucketOps, FlushAllDeletesEveryDocumentWithItsOwnSeqno) {
    for (int i = 0; i < 50; ++i) {
        client.set("k" + std::to_string(i), "v");
    }
    bucket->store(Vbid{1}, "other", StoreMode::Set, "v", {}, client.now);
    EXPECT_TRUE(bucket->flushAll(client.now).ok());
    EXPECT_EQ(bucket->stats().items, 0u);
    EXPECT_EQ(client.vb().highSeqno(), Seqno{100});
    EXPECT_EQ(client.valueOf("k7"), "[key not found]");
    EXPECT_TRUE(client.add("k7", "back").ok());
}

TEST_P(BucketOps, EveryKindOfDeletionRecordsTheSame) {
    const auto prepare = [&](std::string_view key) {
        const bool expires = key.starts_with("expires");
        client.set(key, "v",
                   {.flags = 9, .exptime = expires ? client.now.seconds + 5 : 0, .datatype = 1});
    };
    for (const auto* key : {"removed", "expires on access", "expires in the pass", "flushed"}) {
        prepare(key);
    }
    client.wait(5);
    EXPECT_TRUE(client.remove("removed").ok());
    EXPECT_EQ(client.get("expires on access").status, OpStatus::KeyNotFound);
    EXPECT_EQ(bucket->expirePass(client.now), 1U);
    EXPECT_TRUE(bucket->flushAll(client.now).ok());
    for (const auto* key : {"removed", "expires on access", "expires in the pass", "flushed"}) {
        const OpResult meta = client.getMeta(key);
        EXPECT_TRUE(meta.deleted) << key;
        EXPECT_EQ(meta.number, 2U) << key;
        EXPECT_EQ(meta.exptime, client.now.seconds) << key;
        EXPECT_EQ(meta.flags, 9U) << key;
        EXPECT_EQ(meta.datatype, 0U) << key;
    }
}

TEST_P(BucketOps, GetRandomFindsEveryDocumentInTime) {
    std::string key;
    EXPECT_EQ(bucket->getRandom(key, client.now).status, OpStatus::KeyNotFound);
    for (const auto* name : {"a", "b", "c"}) {
        client.set(name, name);
    }
    std::set<std::string> seen;
    for (int i = 0; i < 1000 && seen.size() < 3; ++i) {
        const OpResult result = bucket->getRandom(key, client.now);
        ASSERT_TRUE(result.ok());
        EXPECT_EQ(result.value.view(), key);
        seen.insert(key);
    }
    EXPECT_EQ(seen.size(), 3u);
}

TEST_P(BucketOps, ARecreatedKeyContinuesItsRevisions) {
    client.set("k", "1");
    client.set("k", "2");
    client.remove("k");
    client.set("k", "3");
    EXPECT_EQ(client.getMeta("k").number, 4u);
}

}  // namespace kv::test
