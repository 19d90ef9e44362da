#include <gtest/gtest.h>

#include "server/stats/stats.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

template <class Number>
std::string big(Number value) {
    std::string bytes(sizeof value, '\0');
    storeBig(bytes.data(), value);
    return bytes;
}
uint64_t number(const std::string& bytes, size_t at) {
    return loadBig<uint64_t>(bytes.data() + at);
}

/// A Couchbase connection. Every document is in vBucket 0; `persisted` is the seqno up to which it
/// is on disk.
class ObserveOps : public testing::Test {
  protected:
    ObserveOps() {
        bench_.becomeCouchbase();
        bench_.server.persistedSeqno = [this](Vbid) { return Seqno{persisted_}; };
    }
    void set(const std::string& key, const std::string& value = "v") {
        ASSERT_EQ(bench_.ask({.opcode = Opcode::kSet,
                              .key = key,
                              .value = value,
                              .extras = std::string(8, '\0')})
                          .status,
                  Status::kSuccess);
    }
    std::string uuid() {
        return bench_.ask({.opcode = Opcode::kGetFailoverLog}).value.substr(0, 8);
    }
    void become(VbState state) { bench_.bucket->setVBucketState(Vbid{0}, state, bench_.now); }

    uint64_t persisted_{0};
    Bench bench_;
};

TEST_F(ObserveOps, ObserveReportsEachKey) {
    const auto asked = [](const std::string& key) {
        return "\0\0"s + big(static_cast<uint16_t>(key.size())) + key;
    };
    const auto states = [&] {
        const auto answer = bench_.ask(
                {.opcode = Opcode::kObserve, .value = asked("a") + asked("bb") + asked("none")});
        // For each document: vBucket, length, key, state, CAS.
        std::vector<unsigned> found;
        for (size_t at = 0; at < answer.value.size();) {
            const size_t length = static_cast<unsigned char>(answer.value[at + 3]);
            found.push_back(static_cast<unsigned char>(answer.value[at + 4 + length]));
            at += 4 + length + 9;
        }
        return found;
    };
    set("a");
    set("bb");
    persisted_ = 1;
    EXPECT_EQ(states(), (std::vector<unsigned>{1, 0, 0x80}));
    bench_.ask({.opcode = Opcode::kDelete, .key = "a"});
    EXPECT_EQ(states(), (std::vector<unsigned>{0x81, 0, 0x80}));
    persisted_ = 3;
    EXPECT_EQ(states(), (std::vector<unsigned>{0x80, 1, 0x80})) << "the deletion is on disk";
    for (const auto& broken : {"\0"s, "\0\0\0\0"s, "\0\0\0\x05kk"s}) {
        EXPECT_EQ(bench_.ask({.opcode = Opcode::kObserve, .value = broken}).status,
                  Status::kEinval);
    }
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kObserve, .value = "\0\x09\0\x01k"s}).status,
              Status::kNotMyVbucket);
}

TEST_F(ObserveOps, ARequestLooksFewThousandKeysUp) {
    const auto ask = [this](size_t keys) {
        std::string list;
        for (size_t i = 0; i < keys; ++i) {
            list += "\0\0\0\1a"s;
        }
        return bench_.ask({.opcode = Opcode::kObserve, .value = list}).status;
    };
    EXPECT_EQ(ask(3000), Status::kSuccess);
    EXPECT_EQ(ask(4000), Status::kE2big);
}

TEST_F(ObserveOps, ObserveReportsAReplicasDocuments) {
    set("a");
    set("gone");
    bench_.ask({.opcode = Opcode::kDelete, .key = "gone"});
    persisted_ = 1;
    become(VbState::Replica);
    const auto state = [this](const std::string& key) {
        const auto answer =
                bench_.ask({.opcode = Opcode::kObserve,
                            .value = "\0\0"s + big(static_cast<uint16_t>(key.size())) + key});
        EXPECT_EQ(answer.status, Status::kSuccess) << key;
        return answer.value.size() == 4 + key.size() + 9
                       ? static_cast<unsigned char>(answer.value[4 + key.size()])
                       : 0xff;
    };
    EXPECT_EQ(state("a"), 1);
    EXPECT_EQ(state("gone"), 0x81);
    EXPECT_EQ(state("none"), 0x80);
    for (const VbState none : {VbState::Pending, VbState::Dead}) {
        become(none);
        EXPECT_EQ(bench_.ask({.opcode = Opcode::kObserve, .value = "\0\0\0\1a"s}).status,
                  Status::kNotMyVbucket);
    }
}

/// Counts the lookups on disk.
class CountingBucket final : public Bucket {
  public:
    explicit CountingBucket(int& asked)
        : Bucket(BucketType::Persistent, {.vbuckets = 4}), asked_(asked) {
        setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
    }

  private:
    OpStatus findTombstone(Vbid, std::string_view, Disk, std::optional<ItemMeta>&) override {
        ++asked_;
        return OpStatus::Ok;
    }
    int& asked_;
};

/// A request may name ten thousand missing keys, and the front-end thread has other connections to
/// serve.
TEST(ObserveOfMissingKeys, ReadsNothingFromDisk) {
    int asked = 0;
    Bench bench(nullptr, 4, std::make_unique<CountingBucket>(asked));
    bench.becomeCouchbase();
    const auto answer = bench.ask({.opcode = Opcode::kObserve, .value = "\0\0\0\1a\0\0\0\1b"s});
    EXPECT_EQ(answer.status, Status::kSuccess);
    EXPECT_EQ(answer.value.size(), 2U * (4 + 1 + 9));
    EXPECT_EQ(asked, 0);
}

TEST_F(ObserveOps, ObserveSeqnoReportsAHistoryAndItsEnd) {
    set("a");
    set("b");
    persisted_ = 1;
    const auto first = uuid();
    const auto ask = [this](const std::string& history) {
        return bench_.ask({.opcode = Opcode::kObserveSeqno, .value = history});
    };
    EXPECT_EQ(ask(first).value, "\0\0\0"s + first + big(uint64_t{1}) + big(uint64_t{2}));
    become(VbState::Replica);
    become(VbState::Active);
    set("c");
    const auto second = uuid();
    EXPECT_NE(first, second);
    EXPECT_EQ(ask(first).value,
              "\1\0\0"s + second + big(uint64_t{1}) + big(uint64_t{3}) + first + big(uint64_t{2}));
    EXPECT_EQ(ask(second).value.size(), 27U);
    EXPECT_EQ(ask("nobodys!").status, Status::kKeyEnoent);
    EXPECT_EQ(ask("short").status, Status::kEinval);
}

TEST_F(ObserveOps, SeqnoPersistenceWaitsAndDelaysLaterRequests) {
    set("a");
    const Frame wait{.opcode = Opcode::kSeqnoPersistence, .extras = big(uint64_t{1}), .opaque = 1};
    EXPECT_EQ(bench_.feed(getBytes("a", 0) + wait.bytes() + getBytes("a", 2)).stop, Stop::Waiting);
    EXPECT_EQ(bench_.answers().size(), 1U) << "earlier requests are answered";
    EXPECT_EQ(bench_.feed({}).stop, Stop::Waiting);
    EXPECT_TRUE(bench_.answers().empty());
    persisted_ = 1;
    EXPECT_EQ(bench_.feed({}).stop, Stop::NeedInput);
    const auto answers = bench_.answers();
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0].status, Status::kSuccess);
    EXPECT_EQ(answers[0].opaque, 1U);
    EXPECT_EQ(answers[1].opaque, 2U);

    bench_.server.settings.persistWaitSeconds = 0;
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSeqnoPersistence, .extras = big(uint64_t{9})}).status,
              Status::kEtmpfail);
    bench_.server.persistedSeqno = {};
    EXPECT_EQ(bench_.ask(wait).status, Status::kNotSupported);
}

TEST_F(ObserveOps, AWaitThatEndsWithoutItsSeqnoCountsForNoOther) {
    set("a");
    const Frame wait{.opcode = Opcode::kSeqnoPersistence, .extras = big(uint64_t{1})};
    ASSERT_EQ(bench_.feed(wait.bytes()).stop, Stop::Waiting);
    become(VbState::Dead);
    ASSERT_EQ(bench_.feed({}).stop, Stop::NeedInput);
    EXPECT_EQ(bench_.answers().at(0).status, Status::kNotMyVbucket);
    const auto later = std::chrono::steady_clock::now() + std::chrono::hours(1);
    EXPECT_TRUE(bench_.session.waits(later, std::chrono::minutes(1))) << "this one has just begun";
}

TEST_F(ObserveOps, AllSeqnosByState) {
    set("a");
    set("b");
    const auto ask = [this](const std::string& extras) {
        return bench_.ask({.opcode = Opcode::kGetAllVBSeqnos, .extras = extras});
    };
    EXPECT_EQ(ask("").value.size(), 4U * 10);
    EXPECT_EQ(number(ask("").value, 2), 2U);
    become(VbState::Replica);
    EXPECT_EQ(ask("\0\0\0\2"s).value, "\0\0"s + big(uint64_t{2}));
    EXPECT_EQ(ask("\0\0\0\1"s).value.size(), 3U * 10);
    EXPECT_EQ(ask("\0\0\0\5"s).status, Status::kEinval);
}

TEST_F(ObserveOps, ReplicasAreReadByTheirOwnCommand) {
    set("a", "here");
    const auto replica = [this](const std::string& key) {
        return bench_.ask({.opcode = Opcode::kGetReplica, .key = key});
    };
    EXPECT_EQ(replica("a").status, Status::kNotMyVbucket) << "it is active";
    become(VbState::Replica);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "a"}).status, Status::kNotMyVbucket);
    EXPECT_EQ(replica("a").value, "here");
    EXPECT_EQ(replica("none").status, Status::kKeyEnoent);
}

TEST_F(ObserveOps, KeysCanBeListed) {
    const auto random = [this] { return bench_.ask({.opcode = Opcode::kGetRandomKey}); };
    const auto keys = [this](const std::string& from, const std::string& extras) {
        return bench_.ask({.opcode = Opcode::kGetKeys, .key = from, .extras = extras});
    };
    EXPECT_EQ(random().status, Status::kKeyEnoent);
    EXPECT_EQ(keys("a", "").status, Status::kKeyEnoent);
    set("delta", "value");
    EXPECT_EQ(random().key, "delta");
    EXPECT_EQ(random().value, "value");
    for (const auto* key : {"bravo", "alpha", "echo", "charlie"}) {
        set(key);
    }
    EXPECT_EQ(keys("b", "\0\0\0\2"s).value, "\0\5bravo\0\7charlie"s);
    EXPECT_EQ(keys("d", "").value, "\0\5delta\0\4echo"s);
    EXPECT_EQ(keys("a", "\0\0\0\0"s).status, Status::kEinval);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kListBuckets}).value, "default");
}

TEST_F(ObserveOps, StatGroupsOfVbuckets) {
    set("a");
    set("b c");
    persisted_ = 1;
    const auto stat = [this](const std::string& group) {
        auto answer = collectStats(bench_.server, group);
        EXPECT_EQ(answer.status, Status::kSuccess) << group;
        return std::map<std::string, std::string>(answer.values.begin(), answer.values.end());
    };
    EXPECT_EQ(stat("vbucket").size(), 4U);
    become(VbState::Replica);
    EXPECT_EQ(stat("vbucket")["vb_0"], "replica");
    become(VbState::Active);
    EXPECT_EQ(stat("vbucket-details 0")["vb_0:num_items"], "2");
    EXPECT_EQ(stat("vbucket-details 0").count("vb_1"), 0U);
    auto seqnos = stat("vbucket-seqno");
    EXPECT_EQ(seqnos["vb_0:high_seqno"], "2");
    EXPECT_EQ(seqnos["vb_0:last_persisted_seqno"], "1");
    EXPECT_EQ(seqnos["vb_0:uuid"], std::to_string(number(uuid(), 0)));
    EXPECT_EQ(stat("failovers 0")["vb_0:num_entries"], "2");
    EXPECT_EQ(stat("failovers 0")["vb_0:0:id"], seqnos["vb_0:uuid"]);
    EXPECT_EQ(stat("checkpoint 0")["vb_0:state"], "active");
    EXPECT_EQ(stat("key a 0")["key_is_dirty"], "false");
    EXPECT_EQ(stat("key b c 0")["key_is_dirty"], "true");
    EXPECT_EQ(stat("uuid")["uuid"], bench_.server.config.uuid());
    const std::map<std::string, Status> refused{
            {"failovers x", Status::kEinval},   {"failovers 9", Status::kNotMyVbucket},
            {"key a", Status::kEinval},         {"key none 0", Status::kKeyEnoent},
            {"key a 9", Status::kNotMyVbucket}, {"vbuckets", Status::kKeyEnoent}};
    for (const auto& [group, status] : refused) {
        EXPECT_EQ(collectStats(bench_.server, group).status, status) << group;
    }
}

TEST_F(ObserveOps, TrafficIsCounted) {
    set("a");
    bench_.feed(getBytes("a") + Frame{.opcode = Opcode::kDelete, .key = "a"}.bytes() +
                Frame{.opcode = Opcode::kFlush}.bytes());
    const auto answer = collectStats(bench_.server, "");
    const std::map<std::string, std::string> figures(answer.values.begin(), answer.values.end());
    EXPECT_EQ(figures.at("cmd_flush"), "1");
    EXPECT_EQ(figures.at("cmd_total_gets"), "1");
    EXPECT_EQ(figures.at("cmd_total_sets"), "2");
    EXPECT_EQ(figures.at("cmd_total_ops"), "3");
}

}  // namespace
}  // namespace kv::server
