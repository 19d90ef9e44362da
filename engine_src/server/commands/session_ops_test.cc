#include <gtest/gtest.h>

#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "server/test_support.h"
#include "types/contention.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

std::map<std::string, std::string> statsOf(Bench& bench, const std::string& group) {
    bench.feed(Frame{.opcode = Opcode::kStat, .key = group}.bytes());
    std::map<std::string, std::string> found;
    for (const auto& answer : bench.answers()) {
        found[answer.key] = answer.value;
    }
    return found;
}

TEST(SessionOps, HelloAcksOnlyWhatIsImplemented) {
    Bench bench;
    // The features that the Python SDK 4.6 asks for.
    const auto asked =
            "\0\x03\0\x06\0\x07\0\x08\0\x0b\0\x0c\0\x10\0\x0f\0\x11\0\x15\0\x12\0\x17\0\x14\0\x1c\0\x21\0\x0e\0\x0d\0\x1e\0\x0a\0\x04"s;
    const auto answer =
            bench.ask({.opcode = Opcode::kHello, .key = R"({"a":"test"})", .value = asked});
    EXPECT_EQ(answer.value, "\0\x03\0\x07\0\x08\0\x0b\0\x10\0\x11\0\x14\0\x1e\0\x04"s);
    EXPECT_TRUE(bench.session.couchbase());
    EXPECT_EQ(bench.ask({.opcode = Opcode::kHello, .key = "x", .value = "\0"s}).status,
              Status::kEinval);
}

TEST(SessionOps, HelloAcksAFeatureOnceHoweverOftenItIsNamed) {
    Bench bench;
    const auto answer = bench.ask(
            {.opcode = Opcode::kHello, .key = "test", .value = "\0\x07\0\x04\0\x07\0\x04\0\x07"s});
    EXPECT_EQ(answer.value, "\0\x07\0\x04"s);
}

TEST(SessionOps, ABucketIsRequiredIfItCanBeSelected) {
    Bench bench;
    bench.ask({.opcode = Opcode::kHello, .key = "test", .value = "\0\x08"s});
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kNoBucket);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kSelectBucket, .key = "other"}).status,
              Status::kEaccess);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kSelectBucket, .key = "default"}).status,
              Status::kSuccess);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kKeyEnoent);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kSelectBucket, .key = "@no bucket@"}).status,
              Status::kSuccess);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kNoBucket);
}

TEST(SessionOps, ConfigIsServedAndNotRepeated) {
    Bench bench;
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGetClusterConfig}).value,
              bench.server.config.current()->json());
    const auto known = [&bench](char epoch, char revision) {
        return bench
                .ask({.opcode = Opcode::kGetClusterConfig,
                      .extras = std::string(7, '\0') + epoch + std::string(7, '\0') + revision})
                .value;
    };
    EXPECT_TRUE(known(1, 1).empty());
    EXPECT_FALSE(known(1, 0).empty());
    EXPECT_FALSE(known(0, 9).empty());
}

TEST(SessionOps, ErrorMap) {
    Bench bench;
    const auto answer = bench.ask({.opcode = Opcode::kGetErrorMap, .value = "\0\x02"s});
    EXPECT_EQ(nlohmann::json::parse(answer.value)["version"], 2);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGetErrorMap, .value = "\0\0"s}).status,
              Status::kEinval);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGetErrorMap, .value = "xxx"}).status, Status::kEinval);
}

TEST(SessionOps, QuitAnswersThenClosesAndQuitQOnlyCloses) {
    Bench bench;
    EXPECT_EQ(bench.feed(Frame{.opcode = Opcode::kQuit}.bytes() + getBytes("x")).stop,
              Stop::CloseFlushed);
    EXPECT_EQ(bench.answers().size(), 1U);
    Bench quiet;
    EXPECT_EQ(quiet.feed(Frame{.opcode = Opcode::kQuitQ}.bytes()).stop, Stop::CloseFlushed);
    EXPECT_TRUE(quiet.answers().empty());
}

class Login : public testing::Test {
  protected:
    UserStore users_{std::map<std::string, std::string>{{"ann", "secret"}}};
    Bench bench_{&users_};
};

TEST_F(Login, NothingWorksBeforeIt) {
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kAuthError)
            << "memcached's code";
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kStat}).status, Status::kAuthError);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGetClusterConfig}).status, Status::kAuthError);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kFlush}).status, Status::kAuthError);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kNoop}).status, Status::kSuccess);
    bench_.ask({.opcode = Opcode::kHello, .key = "test", .value = "\0\x08"s});
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kEaccess)
            << "Couchbase's code";
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSelectBucket, .key = "default"}).status,
              Status::kEaccess);
}

TEST_F(Login, PlainOpensTheDefaultBucketToPlainClients) {
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSaslListMechs}).value, kSaslMechanisms);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0secret"s})
                      .status,
              Status::kSuccess);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kKeyEnoent);
}

TEST_F(Login, FailuresArePunishedAndEndTheConnection) {
    const auto fail =
            Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0wrong"s}.bytes();
    for (unsigned i = 1; i < bench_.server.settings.maxFailedLogins; ++i) {
        EXPECT_EQ(bench_.feed(fail).stop, Stop::Penalty);
        EXPECT_EQ(bench_.answers().front().status, Status::kAuthError);
    }
    EXPECT_EQ(bench_.feed(fail).stop, Stop::CloseFlushed);
    EXPECT_EQ(bench_.stats.authErrors.get(), 5U);
}

TEST_F(Login, AFailedLoginForgetsAnEarlierOne) {
    bench_.ask({.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0secret"s});
    bench_.ask({.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0wrong"s});
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kGet, .key = "k"}).status, Status::kAuthError);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSaslStep, .key = "SCRAM-SHA1", .value = "x"}).status,
              Status::kAuthError);
}

TEST(Roles, EachIncludesTheRightsOfLowerRoles) {
    const UserStore users(std::map<std::string, User>{{"reader", {"p", Role::ReadOnly}},
                                                      {"writer", {"p", Role::ReadWrite}},
                                                      {"chief", {"p", Role::Admin}}});
    const std::string store(8, '\0');
    const std::vector<Frame> reading{{.opcode = Opcode::kGet, .key = "k"},
                                     {.opcode = Opcode::kGetMeta, .key = "k"},
                                     {.opcode = Opcode::kGetVBucket},
                                     {.opcode = Opcode::kGetClusterConfig},
                                     {.opcode = Opcode::kGetFailoverLog}};
    const std::vector<Frame> writing{
            {.opcode = Opcode::kSet, .key = "k", .value = "v", .extras = store},
            {.opcode = Opcode::kSet,
             .key = "k",
             .value = std::string(21 << 20, 'v'),
             .extras = store},
            {.opcode = Opcode::kAppend, .key = "k", .value = "v"},
            {.opcode = Opcode::kIncrement, .key = "k", .extras = std::string(20, '\0')},
            {.opcode = Opcode::kTouch, .key = "k", .extras = "\0\0\0\0"s},
            {.opcode = Opcode::kGat, .key = "k", .extras = "\0\0\0\0"s},
            {.opcode = Opcode::kGetLocked, .key = "k"},
            {.opcode = Opcode::kDelete, .key = "k"}};
    const std::vector<Frame> managing{{.opcode = Opcode::kFlush},
                                      {.opcode = Opcode::kSetVBucket, .extras = "\x01"},
                                      {.opcode = Opcode::kDelVBucket},
                                      {.opcode = Opcode::kVerbosity, .extras = "\0\0\0\x01"s},
                                      {.opcode = Opcode::kStat, .key = "reset"},
                                      {.opcode = Opcode::kStat, .key = "detail on"},
                                      {.opcode = Opcode::kStat, .key = "detail off"}};
    const auto allowed = [&](const std::string& name, const std::vector<Frame>& frames) {
        Bench bench(&users);
        bench.ask({.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0"s + name + "\0p"s});
        std::set<bool> answers;
        for (const auto& frame : frames) {
            answers.insert(bench.ask(frame).status != Status::kEaccess);
        }
        EXPECT_EQ(answers.size(), 1U) << name << ": all of them, or none";
        return *answers.begin();
    };
    EXPECT_TRUE(allowed("reader", reading));
    EXPECT_FALSE(allowed("reader", writing));
    EXPECT_FALSE(allowed("reader", managing));
    EXPECT_TRUE(allowed("writer", reading));
    EXPECT_TRUE(allowed("writer", writing));
    EXPECT_FALSE(allowed("writer", managing));
    EXPECT_TRUE(allowed("chief", writing));
    EXPECT_TRUE(allowed("chief", managing));
}

TEST(Roles, EveryCommandHasItsRequirement) {
    using enum Opcode;
    const std::map<Needs, std::set<Opcode>> expected{
            {Needs::Nothing,
             {kHello, kSaslListMechs, kSaslAuth, kSaslStep, kGetErrorMap, kNoop, kVersion, kQuit,
              kQuitQ}},
            {Needs::Login, {kStat, kSelectBucket, kGetClusterConfig, kListBuckets}},
            {Needs::Admin, {kVerbosity, kSetClusterConfig}},
            {Needs::Read,
             {kGet,
              kGetQ,
              kGetK,
              kGetKQ,
              kGetMeta,
              kGetMetaQ,
              kSubdocMultiLookup,
              kGetVBucket,
              kObserve,
              kObserveSeqno,
              kSeqnoPersistence,
              kGetReplica,
              kGetKeys,
              kGetRandomKey,
              kGetAllVBSeqnos,
              kGetFailoverLog,
              kDcpOpen,
              kDcpControl,
              kDcpStreamReq,
              kDcpCloseStream,
              kDcpBufferAck,
              kDcpNoop,
              kDcpGetFailoverLog}},
            {Needs::Write, {kSet,
                            kSetQ,
                            kAdd,
                            kAddQ,
                            kReplace,
                            kReplaceQ,
                            kAppend,
                            kAppendQ,
                            kPrepend,
                            kPrependQ,
                            kDelete,
                            kDeleteQ,
                            kIncrement,
                            kIncrementQ,
                            kDecrement,
                            kDecrementQ,
                            kTouch,
                            kGat,
                            kGatQ,
                            kGatK,
                            kGatKQ,
                            kGetLocked,
                            kUnlockKey,
                            kSetWithMeta,
                            kSetWithMetaQ,
                            kAddWithMeta,
                            kAddWithMetaQ,
                            kDeleteWithMeta,
                            kDeleteWithMetaQ}},
            {Needs::Manage, {kFlush, kFlushQ, kSetVBucket, kDelVBucket}}};
    const CommandTable commands;
    std::map<Needs, std::set<Opcode>> found;
    for (int raw = 0; raw < 256; ++raw) {
        const auto opcode = static_cast<Opcode>(raw);
        if (commands.at(opcode).handler != nullptr) {
            found[commands.at(opcode).needs].insert(opcode);
        }
    }
    EXPECT_EQ(found, expected);
}

TEST(Stats, GroupsHaveTheirFigures) {
    Bench bench;
    bench.feed(setBytes("k", "v") + getBytes("k") + getBytes("none"));
    bench.answers();
    auto all = statsOf(bench, "");
    EXPECT_EQ(all["curr_items"], "1");
    EXPECT_EQ(all["cmd_set"], "1");
    EXPECT_EQ(all["cmd_get"], "2");
    EXPECT_EQ(all["get_hits"], "1");
    EXPECT_EQ(all["get_misses"], "1");
    EXPECT_EQ(all["bucket_type"], "ephemeral");
    EXPECT_EQ(all["vb_count"], "4");
    auto memory = statsOf(bench, "memory");
    EXPECT_EQ(memory["ep_blob_num"], "1");
    EXPECT_EQ(memory["ep_max_size"], std::to_string(size_t{256} << 20));
    EXPECT_GT(std::stoull(memory["mem_used"]), 0U);
    EXPECT_EQ(statsOf(bench, "allocator")["name"], "system");
    EXPECT_EQ(statsOf(bench, "allocator").count("opt.narenas"), 0U);
    EXPECT_EQ(nlohmann::json::parse(statsOf(bench, "timings")["get"])["count"], 2);
    EXPECT_GT(std::stoull(statsOf(bench, "hash")["stripes"]), 0U);
}

TEST(Stats, ContentionCountsTheWaitsOfThreads) {
    Bench bench;
    statsOf(bench, "reset");
    auto stats = statsOf(bench, "contention");
    for (const char* lock : {"hash_lock", "log_lock", "listener_lock"}) {
        EXPECT_EQ(stats.at(lock + "_waits"s), "0") << lock;
        EXPECT_EQ(stats.at(lock + "_wait_ns"s), "0") << lock;
    }
    EXPECT_EQ(stats.at("memory_merges"), std::to_string(bench.bucket->memory().merges()));
    EXPECT_EQ(stats.at("stat_calls"), "1") << "reset itself, which ended behind its own reset";
    contention.logLocks.add(std::chrono::nanoseconds(7));
    statsOf(bench, "vbucket");
    stats = statsOf(bench, "contention");
    EXPECT_EQ(stats.at("log_lock_waits"), "1");
    EXPECT_EQ(stats.at("log_lock_wait_ns"), "7");
    EXPECT_EQ(stats.at("stat_calls"), "3");
    EXPECT_GT(std::stoull(stats.at("stat_ns")), 0U);
    statsOf(bench, "reset");
    EXPECT_EQ(statsOf(bench, "contention").at("log_lock_waits"), "0");
}

TEST(Stats, ResetZeroesCountersAndTimings) {
    Bench bench;
    bench.feed(setBytes("k", "v") + getBytes("k"));
    bench.answers();
    statsOf(bench, "reset");
    auto all = statsOf(bench, "");
    EXPECT_EQ(all["cmd_get"], "0");
    EXPECT_EQ(all["curr_items"], "1") << "documents stay";
    EXPECT_EQ(statsOf(bench, "timings").count("get"), 0U);
}

TEST(Stats, UnknownGroupsAndGroupsOfOtherParts) {
    Bench bench;
    EXPECT_EQ(bench.ask({.opcode = Opcode::kStat, .key = "nonsense"}).status, Status::kKeyEnoent);
    bench.server.statSources.emplace_back("dcp", [] { return KeyValues{{"streams", "3"}}; });
    bench.server.statSources.emplace_back("", [] { return KeyValues{{"extra", "4"}}; });
    EXPECT_EQ(statsOf(bench, "dcp")["streams"], "3");
    EXPECT_EQ(statsOf(bench, "")["extra"], "4");
    EXPECT_EQ(statsOf(bench, "")["vb_count"], "4");
}

TEST(AdminOps, FlushRemovesEverything) {
    Bench bench;
    bench.feed(setBytes("a", "1") + setBytes("b", "2"));
    bench.answers();
    EXPECT_EQ(bench.ask({.opcode = Opcode::kFlush, .extras = "\0\0\0\x05"s}).status,
              Status::kNotSupported);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kFlush}).status, Status::kSuccess);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGet, .key = "a"}).status, Status::kKeyEnoent);
    bench.feed(Frame{.opcode = Opcode::kFlushQ}.bytes());
    EXPECT_TRUE(bench.answers().empty());
}

TEST(AdminOps, AThreadNeverWaitsForAVBucketThatAnotherChanges) {
    Bench bench;
    bench.feed(setBytes("a", "1"));
    bench.answers();
    for (const auto& frame : {Frame{.opcode = Opcode::kSetVBucket, .extras = "\x04"},
                              Frame{.opcode = Opcode::kDelVBucket}}) {
        std::promise<void> held;
        std::promise<void> done;
        std::thread other([&] {
            const auto lock = bench.bucket->vbucket(Vbid{0}).lockState();  // as a rollback does
            held.set_value();
            done.get_future().wait();
        });
        held.get_future().wait();
        EXPECT_EQ(bench.feed(frame.bytes() + getBytes("a")).stop, Stop::Waiting);
        EXPECT_TRUE(bench.answers().empty()) << "answers keep their order";
        done.set_value();
        other.join();
        EXPECT_EQ(bench.feed("").stop, Stop::NeedInput);
        const auto answers = bench.answers();
        ASSERT_EQ(answers.size(), 2U);
        EXPECT_EQ(answers[0].status, Status::kSuccess);
    }
}

TEST(AdminOps, VbucketStatesAndHistories) {
    Bench bench;
    const auto state = [&bench](uint16_t vbucket) {
        return bench.ask({.opcode = Opcode::kGetVBucket, .vbucket = vbucket});
    };
    const auto change = [&bench](uint16_t vbucket, std::string extras) {
        return bench
                .ask({.opcode = Opcode::kSetVBucket,
                      .extras = std::move(extras),
                      .vbucket = vbucket})
                .status;
    };
    EXPECT_EQ(state(0).value, "\0\0\0\x01"s);
    EXPECT_EQ(state(4).status, Status::kNotMyVbucket);
    EXPECT_EQ(change(0, "\x02"), Status::kSuccess);
    EXPECT_EQ(state(0).value, "\0\0\0\x02"s);
    EXPECT_EQ(change(0, "\0\0\0\x01"s), Status::kSuccess) << "the older, wider form";
    EXPECT_EQ(change(0, "\x05"), Status::kEinval);
    EXPECT_EQ(change(0, "\0"s), Status::kEinval);
    EXPECT_EQ(change(9, "\x01"), Status::kNotMyVbucket);
    const auto log = [&] {
        return bench.ask({.opcode = Opcode::kGetFailoverLog, .vbucket = 0}).value;
    };
    EXPECT_EQ(log().size(), 32U) << "active twice: two histories";
    const auto forget = [&bench](uint16_t vbucket, const std::string& value = "") {
        return bench.ask({.opcode = Opcode::kDelVBucket, .value = value, .vbucket = vbucket})
                .status;
    };
    EXPECT_EQ(forget(0), Status::kEinval) << "it is active";
    EXPECT_EQ(forget(9), Status::kNotMyVbucket);
    EXPECT_EQ(change(0, "\x04"), Status::kSuccess);
    EXPECT_EQ(forget(0), Status::kSuccess);
    EXPECT_EQ(forget(0, "async=0"), Status::kSuccess) << "there is nothing left to do";
    EXPECT_EQ(state(0).value, "\0\0\0\x04"s);
    EXPECT_TRUE(log().empty());
    EXPECT_EQ(change(0, "\x01"), Status::kSuccess);
    EXPECT_EQ(log().size(), 16U) << "a new beginning";
}

}  // namespace
}  // namespace kv::server
