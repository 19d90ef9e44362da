#include <gtest/gtest.h>

#include "server/commands/data_ops_test_support.h"
#include "server/commands/op_target.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

TEST_F(DataOps, GetReturnsFlagsAndTheCasOfTheSet) {
    const auto stored = set("key", "value");
    EXPECT_EQ(stored.status, Status::kSuccess);
    EXPECT_NE(stored.cas, 0U);
    const auto fetched = get("key");
    EXPECT_EQ(fetched.extras, u32(0xabcd));
    EXPECT_EQ(fetched.value, "value");
    EXPECT_EQ(fetched.cas, stored.cas);
    EXPECT_TRUE(fetched.key.empty());
}

TEST_F(DataOps, KFormsRepeatTheKey) {
    set("key", "value");
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGetK, .key = "key"}).key, "key");
    const auto miss = bench_.ask({.opcode = Opcode::kGetK, .key = "none"});
    EXPECT_EQ(miss.status, Status::kKeyEnoent);
    EXPECT_EQ(miss.key, "none");
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGatK, .key = "key", .extras = u32(0)}).key, "key");
}

TEST_F(DataOps, ErrorsCarryAText) {
    EXPECT_FALSE(get("none").value.empty());
    set("key", "1");
    EXPECT_FALSE(set("key", "2", Opcode::kAdd).value.empty());
}

TEST_F(DataOps, AddReplaceAndCas) {
    EXPECT_EQ(set("key", "1", Opcode::kReplace).status, Status::kKeyEnoent);
    const auto added = set("key", "1", Opcode::kAdd);
    EXPECT_EQ(added.status, Status::kSuccess);
    EXPECT_EQ(set("key", "2", Opcode::kAdd).status, Status::kKeyEexists);
    EXPECT_EQ(set("key", "2", Opcode::kReplace, added.cas).status, Status::kSuccess);
    EXPECT_EQ(set("key", "3", Opcode::kSet, added.cas).status, Status::kKeyEexists);
    EXPECT_EQ(set("new", "3", Opcode::kSet, 5).status, Status::kKeyEnoent);
    EXPECT_EQ(set("new", "3", Opcode::kAdd, 5).status, Status::kEinval);
    EXPECT_EQ(get("key").value, "2");
}

TEST_F(DataOps, QuietFormsAreSilentOnSuccessOnly) {
    const auto quiet = [this](const Frame& frame) {
        bench_.feed(frame.bytes());
        return bench_.answers();
    };
    EXPECT_TRUE(
            quiet({.opcode = Opcode::kSetQ, .key = "k", .value = "5", .extras = storeExtras(0, 0)})
                    .empty());
    EXPECT_TRUE(quiet({.opcode = Opcode::kAppendQ, .key = "k", .value = "0"}).empty());
    EXPECT_TRUE(quiet({.opcode = Opcode::kPrependQ, .key = "k", .value = "1"}).empty());
    EXPECT_TRUE(
            quiet({.opcode = Opcode::kIncrementQ, .key = "k", .extras = u64(1) + u64(0) + u32(0)})
                    .empty());
    EXPECT_EQ(get("k").value, "151");
    EXPECT_TRUE(quiet({.opcode = Opcode::kReplaceQ,
                       .key = "k",
                       .value = "x",
                       .extras = storeExtras(0, 0)})
                        .empty());
    EXPECT_TRUE(quiet({.opcode = Opcode::kDeleteQ, .key = "k"}).empty());
    EXPECT_TRUE(quiet({.opcode = Opcode::kGetQ, .key = "k"}).empty());
    EXPECT_TRUE(quiet({.opcode = Opcode::kGatQ, .key = "k", .extras = u32(9)}).empty());
    EXPECT_EQ(quiet({.opcode = Opcode::kDeleteQ, .key = "k"}).size(), 1U);
    EXPECT_EQ(quiet({.opcode = Opcode::kReplaceQ,
                     .key = "k",
                     .value = "x",
                     .extras = storeExtras(0, 0)})
                      .size(),
              1U);
    EXPECT_EQ(quiet({.opcode = Opcode::kAppendQ, .key = "k", .value = "x"}).size(), 1U);
    EXPECT_EQ(quiet({.opcode = Opcode::kGetQ, .key = ""}).size(), 1U) << "a refusal is no miss";
}

TEST_F(DataOps, Counters) {
    EXPECT_EQ(count(Opcode::kIncrement, "n", 1, 7, protocol::kCounterNoCreate).status,
              Status::kKeyEnoent);
    EXPECT_EQ(count(Opcode::kIncrement, "n", 1, 7, 0).value, u64(7));
    EXPECT_EQ(count(Opcode::kIncrement, "n", 3, 0, 0).value, u64(10));
    EXPECT_EQ(count(Opcode::kDecrement, "n", 99, 0, 0).value, u64(0)) << "stops at 0";
    EXPECT_EQ(get("n").value, "0");
    set("text", "abc");
    EXPECT_EQ(count(Opcode::kIncrement, "text", 1, 0, 0).status, Status::kDeltaBadval);
    for (const auto& text : {" 41", "+41", "\t\n41\r\n", "41 apples", "41"}) {
        set("n", text);
        EXPECT_EQ(count(Opcode::kIncrement, "n", 1, 0, 0).value, u64(42)) << text;
    }
    for (const auto& text : {"", " ", "-1", "+", "4x", "18446744073709551616", "+ 1"}) {
        set("n", text);
        EXPECT_EQ(count(Opcode::kIncrement, "n", 1, 0, 0).status, Status::kDeltaBadval) << text;
    }
}

TEST_F(DataOps, CountersAreJson) {
    bench_.becomeCouchbase("\0\x08\0\x0b"s);
    count(Opcode::kIncrement, "n", 1, 7, 0);
    EXPECT_EQ(get("n").datatype, protocol::Datatype::kJson);
    set("n", "5");
    EXPECT_EQ(get("n").datatype, protocol::Datatype::kRaw);
    count(Opcode::kDecrement, "n", 1, 7, 0);
    EXPECT_EQ(get("n").datatype, protocol::Datatype::kJson);
}

TEST_F(DataOps, LockedDocumentsRefuseOthers) {
    const auto lock = [this] {
        return bench_.ask({.opcode = Opcode::kGetLocked, .key = "key", .extras = u32(5)});
    };
    const auto unlock = [this](uint64_t cas) {
        return bench_.ask({.opcode = Opcode::kUnlockKey, .key = "key", .cas = cas}).status;
    };
    const auto remove = [this] { return bench_.ask({.opcode = Opcode::kDelete, .key = "key"}); };
    set("key", "1");
    // Clients see the statuses that they negotiated, with and without XERROR.
    for (const bool xerror : {false, true}) {
        if (xerror) {
            bench_.becomeCouchbase("\0\x07\0\x08"s);
            bench_.ask({.opcode = Opcode::kSet, .key = "key", .extras = storeExtras(0, 0)});
        }
        const auto locked = lock();
        EXPECT_EQ(locked.status, Status::kSuccess);
        EXPECT_EQ(set("key", "2").status, xerror ? Status::kLocked : Status::kKeyEexists);
        EXPECT_EQ(bench_.ask({.opcode = Opcode::kTouch, .key = "key", .extras = u32(5)}).status,
                  xerror ? Status::kLocked : Status::kKeyEexists);
        const auto others = xerror ? Status::kLocked : Status::kEtmpfail;
        EXPECT_EQ(lock().status, others);
        EXPECT_EQ(remove().status, others);
        EXPECT_EQ(unlock(locked.cas + 1), others);
        EXPECT_EQ(unlock(0), Status::kEinval);
        EXPECT_EQ(bench_.ask({.opcode = Opcode::kGetMeta, .key = "key"}).cas, ~uint64_t{0})
                << "the CAS that would open it is the holder's";
        EXPECT_EQ(unlock(locked.cas), Status::kSuccess);
        EXPECT_EQ(unlock(locked.cas), xerror ? Status::kNotLocked : Status::kEtmpfail);
        EXPECT_EQ(set("key", "2").status, Status::kSuccess);
    }
}

TEST_F(DataOps, ReadsBringNeitherCasNorDatatype) {
    set("key", "1");
    for (const Opcode opcode : {Opcode::kGet, Opcode::kGetK, Opcode::kTouch, Opcode::kGat,
                                Opcode::kGetLocked, Opcode::kGetMeta}) {
        const auto extras = opcode == Opcode::kTouch || opcode == Opcode::kGat ? u32(0) : ""s;
        EXPECT_EQ(bench_.ask({.opcode = opcode, .key = "key", .extras = extras, .cas = 1}).status,
                  Status::kEinval);
        EXPECT_EQ(bench_.ask({.opcode = opcode, .key = "key", .extras = extras, .datatype = 1})
                          .status,
                  Status::kEinval);
    }
    for (const auto& version : {"\0"s, "\x03"s, std::string(7, '\0')}) {
        EXPECT_EQ(bench_.ask({.opcode = Opcode::kGetMeta, .key = "key", .extras = version}).status,
                  Status::kEinval);
    }
}

TEST_F(DataOps, GetMetaAlsoReturnsDeletions) {
    const auto meta = [this](const std::string& extras) {
        return bench_.ask({.opcode = Opcode::kGetMeta, .key = "key", .extras = extras});
    };
    EXPECT_EQ(meta("\x02").status, Status::kKeyEnoent);
    set("key", "1");
    const auto live = meta("\x02");
    EXPECT_EQ(live.extras.size(), 21U);
    EXPECT_EQ(live.extras.substr(0, 8), u32(0) + u32(0xabcd));
    EXPECT_EQ(meta("").extras.size(), 20U);
    bench_.ask({.opcode = Opcode::kDelete, .key = "key"});
    EXPECT_EQ(meta("\x02").extras.substr(0, 4), u32(1));
    set("key", "1", Opcode::kSet, 0, 5);
    EXPECT_EQ(meta("").extras.substr(0, 4), u32(0));
    bench_.now = OpTime::fromNanos(bench_.now.nanos + 6'000'000'000ULL);
    EXPECT_EQ(meta("").extras.substr(0, 4), u32(1)) << "expired, though nobody has read it since";
}

TEST_F(DataOps, JsonBitIsReturnedOnlyIfNegotiated) {
    bench_.becomeCouchbase("\0\x08\0\x0b"s);
    bench_.ask({.opcode = Opcode::kSet,
                .key = "j",
                .value = "{}",
                .extras = storeExtras(0, 0),
                .datatype = protocol::Datatype::kJson});
    EXPECT_EQ(get("j").datatype, protocol::Datatype::kJson);
    bench_.becomeCouchbase("\0\x08"s);
    EXPECT_EQ(get("j").datatype, protocol::Datatype::kRaw);
}

TEST_F(DataOps, MutationTokensIfNegotiated) {
    EXPECT_TRUE(set("key", "1").extras.empty());
    bench_.becomeCouchbase("\0\x04\0\x08"s);
    const auto first = set("key", "1").extras;
    const auto second = set("key", "2").extras;
    ASSERT_EQ(first.size(), 16U);
    EXPECT_EQ(first.substr(0, 8), second.substr(0, 8)) << "the same history";
    EXPECT_EQ(static_cast<unsigned char>(first[15]) + 1, static_cast<unsigned char>(second[15]));
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kDelete, .key = "key"}).extras.size(), 16U);
}

TEST_F(DataOps, FramingExtrasAreHonouredOrRefused) {
    const auto framed = [this](std::string framing, Opcode opcode = Opcode::kSet,
                               uint32_t expiry = 0) {
        const bool store = opcode == Opcode::kSet || opcode == Opcode::kAdd;
        return bench_
                .ask({.opcode = opcode,
                      .key = "key",
                      .value = store ? "new" : "",
                      .extras = store ? storeExtras(0, expiry) : "",
                      .magic = protocol::Magic::kAltClientRequest,
                      .framing = std::move(framing)})
                .status;
    };
    EXPECT_EQ(framed("\x11\x02"s), Status::kDurabilityInvalidLevel) << "the disk is not waited for";
    EXPECT_EQ(framed("\x13\x01\0\0"s), Status::kEinval) << "a time-out of 0";
    EXPECT_EQ(framed("\x12\x01\0"s), Status::kEinval) << "durability of two bytes";
    EXPECT_EQ(framed("\x13"s), Status::kEinval) << "cut short";
    EXPECT_EQ(framed("\x42"
                     "ab"s),
              Status::kNotSupported)
            << "somebody else's name";
    EXPECT_EQ(framed("\x60"s), Status::kUnknownFrameInfo);
    EXPECT_EQ(framed("\xf0\x09"s), Status::kUnknownFrameInfo) << "an escaped number";
    EXPECT_EQ(framed("\x01x"s), Status::kEinval) << "a barrier has no data";
    EXPECT_EQ(framed("\x50"s, Opcode::kAdd), Status::kEinval) << "nothing to preserve";
    EXPECT_EQ(framed("\x50"s, Opcode::kGet), Status::kNotSupported);
    EXPECT_EQ(framed("\x11\x01"s, Opcode::kGet), Status::kNotSupported);
    EXPECT_EQ(get("key").status, Status::kKeyEnoent) << "refused requests change nothing";
    EXPECT_EQ(framed(""), Status::kSuccess);
    EXPECT_EQ(framed("\0"s), Status::kSuccess) << "barrier";
    EXPECT_EQ(framed("\x11\x01"s), Status::kSuccess) << "a majority of one node";
    EXPECT_EQ(framed("\x13\x01\x10\0"s, Opcode::kDelete), Status::kSuccess);
}

TEST_F(DataOps, OnAPlainConnectionNoValueGrowsBeyondAMebibyte) {
    const auto concat = [this](Opcode opcode, size_t bytes) {
        return bench_.ask({.opcode = opcode, .key = "key", .value = std::string(bytes, 'x')})
                .status;
    };
    constexpr size_t kMost = 1 << 20;
    set("key", std::string(700'000, 'v'));
    EXPECT_EQ(concat(Opcode::kAppend, 700'000), Status::kE2big);
    EXPECT_EQ(concat(Opcode::kPrepend, kMost - 700'000 + 1), Status::kE2big);
    EXPECT_EQ(get("key").value.size(), 700'000U) << "as it was";
    EXPECT_EQ(concat(Opcode::kAppend, kMost - 700'000), Status::kSuccess);
    EXPECT_EQ(get("key").value.size(), kMost);
    bench_.becomeCouchbase();
    EXPECT_EQ(concat(Opcode::kAppend, 700'000), Status::kSuccess);
}

TEST_F(DataOps, AMajorityIsNotPromisedIfTheMapHasReplicas) {
    const auto durable = [this](Opcode opcode) {
        const bool store = opcode == Opcode::kSet;
        return bench_
                .ask({.opcode = opcode,
                      .key = "key",
                      .value = store ? "new" : "",
                      .extras = store ? storeExtras(0, 0) : "",
                      .magic = protocol::Magic::kAltClientRequest,
                      .framing = "\x11\x01"})
                .status;
    };
    int newest = 1;
    const auto publish = [this, &newest](const std::string& row) {
        const std::string revision = std::to_string(++newest);
        bench_.server.config.publish(std::make_shared<const ClusterConfig>(ClusterConfig::parse(
                R"({"rev":)" + revision + R"(,"nodesExt":[{"thisNode":true},{}],)" +
                        R"("vBucketServerMap":{"serverList":["a:1","b:2"],"vBucketMap":[[0],)" +
                        row + "]}}",
                2)));
    };
    publish("[0,1]");
    EXPECT_EQ(durable(Opcode::kSet), Status::kDurabilityImpossible);
    EXPECT_EQ(get("key").status, Status::kKeyEnoent);
    EXPECT_EQ(durable(Opcode::kGet), Status::kNotSupported);
    EXPECT_EQ(set("key", "value").status, Status::kSuccess) << "nobody asked for a majority";
    EXPECT_EQ(durable(Opcode::kDelete), Status::kDurabilityImpossible);
    publish("[0,-1]");
    EXPECT_EQ(durable(Opcode::kSet), Status::kDurabilityImpossible) << "one of two is no majority";
    publish("[0]");
    EXPECT_EQ(durable(Opcode::kSet), Status::kSuccess);
}

TEST_F(DataOps, PlainClientsAndCouchbaseClientsSeeTheSameDocuments) {
    set("shared", "1");
    bench_.becomeCouchbase();
    const auto vbid = vbucketOfKey("shared", 4);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "shared", .vbucket = vbid.get()}).value,
              "1");
}

TEST_F(DataOps, OtherVbucketsAreNotMineAndTheConfigIsIncluded) {
    bench_.becomeCouchbase();
    const auto refused = bench_.ask({.opcode = Opcode::kGet, .key = "k", .vbucket = 4});
    EXPECT_EQ(refused.status, Status::kNotMyVbucket);
    EXPECT_EQ(refused.value, bench_.server.config.current()->json());
    bench_.bucket->setVBucketState(Vbid{1}, VbState::Replica, bench_.now);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "k", .vbucket = 1}).status,
              Status::kNotMyVbucket);
    bench_.becomeCouchbase("\0\x08\0\x1e"s);  // once is enough for this bench
    EXPECT_TRUE(bench_.ask({.opcode = Opcode::kGet, .key = "k", .vbucket = 4}).value.empty());
}

TEST_F(DataOps, MemcachedLimitsOnPlainConnections) {
    set("big", "old");
    EXPECT_EQ(set("big", std::string((1 << 20) + 1, 'x')).status, Status::kE2big);
    EXPECT_EQ(get("big").status, Status::kKeyEnoent) << "the old value is gone";
    set("big", "old");
    EXPECT_EQ(set("big", std::string((20 << 20) + 1, 'x')).status, Status::kE2big);
    EXPECT_EQ(get("big").status, Status::kKeyEnoent) << "also where no client may go";
    EXPECT_EQ(set("big", std::string(1 << 20, 'x')).status, Status::kSuccess);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kDelete, .key = "big"}).cas, 0U);

    EXPECT_EQ(bench_.feed(getBytes(std::string(251, 'k'))).stop, Stop::CloseFlushed);
    EXPECT_EQ(bench_.answers().front().status, Status::kEinval);

    Bench couchbase;
    couchbase.becomeCouchbase();
    EXPECT_EQ(couchbase.feed(getBytes(std::string(251, 'k'))).stop, Stop::NeedInput);
    EXPECT_EQ(couchbase.answers().front().status, Status::kEinval);
    EXPECT_EQ(couchbase
                      .ask({.opcode = Opcode::kSet,
                            .key = "big",
                            .value = std::string(3 << 20, 'x'),
                            .extras = storeExtras(0, 0)})
                      .status,
              Status::kSuccess);
    EXPECT_NE(couchbase.ask({.opcode = Opcode::kDelete, .key = "big"}).cas, 0U);
}

TEST_F(DataOps, OnlyASetThatIsTooLongRemovesTheOldValue) {
    // As memcached: a client that adds or replaces did not mean this document.
    const std::string tooLong((1 << 20) + 1, 'x');
    for (const Opcode opcode : {Opcode::kAdd, Opcode::kAddQ, Opcode::kReplace, Opcode::kReplaceQ}) {
        EXPECT_EQ(set("missing", tooLong, opcode).status, Status::kE2big);
        EXPECT_EQ(get("missing").status, Status::kKeyEnoent);
        set("there", "old");
        EXPECT_EQ(set("there", tooLong, opcode).status, Status::kE2big);
        EXPECT_EQ(get("there").value, "old");
    }
    EXPECT_EQ(set("there", std::string((20 << 20) + 1, 'x'), Opcode::kReplace).status,
              Status::kE2big);
    EXPECT_EQ(get("there").value, "old") << "also where no client may go";
    EXPECT_EQ(set("there", tooLong, Opcode::kSetQ).status, Status::kE2big);
    EXPECT_EQ(get("there").status, Status::kKeyEnoent);
}

TEST_F(DataOps, ConnectionBuffersAreNotChargedToTheBucket) {
    bench_.becomeCouchbase();
    bench_.ask({.opcode = Opcode::kSet,
                .key = "k",
                .value = std::string(1 << 20, 'x'),
                .extras = storeExtras(0, 0)});
    const auto before = bench_.bucket->memory().precise();
    std::string many;
    for (int i = 0; i < 20; ++i) {
        many += getBytes("k");
    }
    bench_.feed(many);
    EXPECT_GT(bench_.out.size(), size_t{20} << 20);
    EXPECT_EQ(bench_.bucket->memory().precise(), before);
}

}  // namespace
}  // namespace kv::server
