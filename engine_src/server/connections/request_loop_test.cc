#include "server/connections/request_loop.h"

#include <gtest/gtest.h>

#include <random>

#include "dcp/dcp_node.h"
#include "executor/fake_executor.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Magic;
using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

/// Limits only the work, as a connection does.
constexpr TurnBudget kLimitedWork{1'000'000, size_t{1} << 30};

/// A stream with every kind of frame; `answers` must result however it is cut into pieces.
std::string conversation() {
    return setBytes("a", "first", 1) + getBytes("a", 2) + getBytes("missing", 3) +
           Frame{.opcode = Opcode::kGetQ, .key = "missing", .opaque = 4}.bytes() +
           Frame{.opcode = Opcode::kGetKQ, .key = "a", .opaque = 5}.bytes() +
           Frame{.opcode = static_cast<Opcode>(0x77), .key = "k", .value = "body", .opaque = 6}
                   .bytes() +
           setBytes("b", std::string(700, 'v'), 7) + getBytes("b", 8) +
           Frame{.opcode = Opcode::kNoop, .magic = Magic::kServerResponse}.bytes() +  // ignored
           Frame{.opcode = Opcode::kAppend, .key = "a", .value = "+", .opaque = 9}.bytes() +
           getBytes("a", 10) + Frame{.opcode = Opcode::kNoop, .opaque = 11}.bytes();
}

void expectConversation(const std::vector<Answer>& answers) {
    const std::vector<uint32_t> opaques{1, 2, 3, 5, 6, 7, 8, 9, 10, 11};
    ASSERT_EQ(answers.size(), opaques.size());
    for (size_t i = 0; i < opaques.size(); ++i) {
        EXPECT_EQ(answers[i].opaque, opaques[i]);
    }
    EXPECT_EQ(answers[1].value, "first");
    EXPECT_EQ(answers[2].status, Status::kKeyEnoent);
    EXPECT_EQ(answers[3].key, "a");
    EXPECT_EQ(answers[4].status, Status::kUnknownCommand);
    EXPECT_FALSE(answers[4].value.empty());
    EXPECT_EQ(answers[6].value, std::string(700, 'v'));
    EXPECT_EQ(answers[8].value, "first+");
}

TEST(RequestLoop, OnePieceIsAnsweredInOrder) {
    Bench bench;
    const auto progress = bench.feed(conversation());
    EXPECT_EQ(progress.stop, Stop::NeedInput);
    EXPECT_EQ(progress.wanted, protocol::kHeaderSize);
    EXPECT_TRUE(bench.pending.empty());
    expectConversation(bench.answers());
}

TEST(RequestLoop, EverySplitOfTheStreamGivesTheSameAnswers) {
    const auto bytes = conversation();
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
        Bench bench;
        bench.feed(std::string_view(bytes).substr(0, cut));
        bench.feed(std::string_view(bytes).substr(cut));
        expectConversation(bench.answers());
        ASSERT_FALSE(HasFailure()) << "cut at " << cut;
    }
}

TEST(RequestLoop, SingleBytes) {
    Bench bench;
    for (const char byte : conversation()) {
        const auto progress = bench.feed(std::string_view(&byte, 1));
        EXPECT_EQ(progress.stop, Stop::NeedInput);
        EXPECT_GT(progress.wanted, bench.pending.size())
                << "more must always be wanted than is there";
    }
    expectConversation(bench.answers());
}

TEST(RequestLoop, RandomPieces) {
    const auto bytes = conversation();
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        Bench bench;
        for (size_t at = 0; at < bytes.size();) {
            const size_t count = 1 + random() % 200;
            bench.feed(std::string_view(bytes).substr(at, count));
            at += count;
        }
        expectConversation(bench.answers());
    }
}

TEST(RequestLoop, BudgetsEndATurnAndLoseNothing) {
    Bench bench;
    auto progress = bench.feed(conversation(), {3, size_t{1} << 30});
    EXPECT_EQ(progress.stop, Stop::TurnOver);
    int turns = 1;
    while (progress.stop == Stop::TurnOver) {
        progress = bench.feed({}, {3, size_t{1} << 30});
        ++turns;
    }
    EXPECT_EQ(turns, 4);  // 11 requests and one frame that is ignored
    expectConversation(bench.answers());

    Bench narrow;
    std::vector<Answer> all;
    for (progress = narrow.feed(conversation(), {1000, 1}); progress.stop == Stop::OutputFull;
         progress = narrow.feed({}, {1000, 1})) {
        const auto some = narrow.answers();
        EXPECT_EQ(some.size(), 1U) << "at most one answer beyond the budget";
        all.insert(all.end(), some.begin(), some.end());
    }
    const auto rest = narrow.answers();
    all.insert(all.end(), rest.begin(), rest.end());
    expectConversation(all);
}

TEST(RequestLoop, AppendsToALargeValueEndATurn) {
    Bench bench;
    bench.becomeCouchbase();
    bench.feed(setBytes("large", std::string(3 << 20, 'v')));
    std::string appends;
    for (int i = 0; i < 10; ++i) {
        appends += Frame{.opcode = i % 2 == 0 ? Opcode::kAppend : Opcode::kPrepend,
                         .key = "large",
                         .value = "+"}
                           .bytes();
    }
    bench.answers();
    auto progress = bench.feed(appends, kLimitedWork);
    EXPECT_EQ(progress.stop, Stop::TurnOver);
    EXPECT_EQ(bench.answers().size(), 1U) << "each copies 3 MiB, and a turn 1 MiB and one value";
    int turns = 1;
    for (; progress.stop == Stop::TurnOver; ++turns) {
        progress = bench.feed({}, kLimitedWork);
    }
    EXPECT_EQ(turns, 10);
    EXPECT_EQ(bench.answers().size(), 9U);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kGet, .key = "large"}).value.size(),
              (size_t{3} << 20) + 10);
}

TEST(RequestLoop, ABenchRunsWholeInputsHoweverLongTheyTake) {
    Bench bench;
    bench.commands.add({Opcode::kVerbosity},
                       {.handler = [](CommandContext& context, const protocol::FrameView& request) {
                           context.work += size_t{1} << 40;
                           reply(context, request, {});
                           return After::Continue;
                       }});
    const std::string slow =
            Frame{.opcode = Opcode::kVerbosity, .extras = std::string(4, '\0')}.bytes();
    EXPECT_EQ(bench.feed(slow + slow).stop, Stop::NeedInput);
    EXPECT_EQ(bench.answers().size(), 2U);
}

/// Requests of one kind end turns by their own work, and all of them are answered.
void expectTurns(Bench& bench, const std::string& request, size_t answersOfEach = 1) {
    constexpr size_t kRequests = 2000;
    std::string bytes;
    for (size_t i = 0; i < kRequests; ++i) {
        bytes += request;
    }
    size_t turns = 1;
    size_t answers = 0;
    for (auto progress = bench.feed(bytes, kLimitedWork); progress.stop == Stop::TurnOver;
         ++turns) {
        answers += bench.answers().size();
        progress = bench.feed({}, kLimitedWork);
    }
    answers += bench.answers().size();
    EXPECT_GT(turns, 1U);
    EXPECT_EQ(answers, answersOfEach * kRequests);
}

TEST(RequestLoop, SmallRequestsForMuchWorkEndATurn) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    Bench bench(&users, 1024);
    ASSERT_EQ(bench.ask({.opcode = Opcode::kSaslAuth,
                         .key = "PLAIN",
                         .value = std::string("\0ann\0secret", 11)})
                      .status,
              Status::kSuccess);
    bench.becomeCouchbase();
    bench.feed(setBytes("k", "v"));
    bench.answers();
    const std::string observed("\0\0\0\1k", 5);
    std::string many;
    for (int i = 0; i < 100; ++i) {
        many += observed;
    }
    const std::string path("\xc5\x04\0\x09$document", 13);
    for (const Frame& frame :
         {Frame{.opcode = Opcode::kGetAllVBSeqnos},
          Frame{.opcode = Opcode::kObserve, .value = many},
          Frame{.opcode = Opcode::kSubdocMultiLookup, .key = "k", .value = path},
          Frame{.opcode = Opcode::kSaslAuth, .key = "SCRAM-SHA512", .value = "n,,n=ann,r=a"},
          Frame{.opcode = Opcode::kHello,
          .key = "t",
          .value = std::string("\0\x08", 2) + std::string(4000, 'x')}}) {
        SCOPED_TRACE(protocol::toString(frame.opcode));
        expectTurns(bench, frame.bytes());
    }
}

TEST(RequestLoop, StreamsThatAreOpenedAndClosedEndATurn) {
    Bench bench;
    FakeExecutor executor;
    dcp::DcpNode node(*bench.bucket, executor, std::chrono::nanoseconds(0), {}, {});
    bench.server.dcp = &node;
    bench.ask(
            {.opcode = Opcode::kDcpOpen, .key = "c", .extras = std::string("\0\0\0\0\0\0\0\1", 8)});
    // From 0 to the largest seqno.
    const std::string extras =
            std::string(16, '\0') + std::string(8, '\xff') + std::string(24, '\0');
    expectTurns(bench,
                Frame{.opcode = Opcode::kDcpStreamReq, .extras = extras}.bytes() +
                        Frame{.opcode = Opcode::kDcpCloseStream}.bytes(),
                2);
    bench.session.converse(nullptr);
    executor.runDue();
}

TEST(RequestLoop, AnotherProtocolClosesTheConnection) {
    for (const char* text : {"GET / HTTP/1.1\r\n", "get a\r\n", "\xff\xff"}) {
        Bench bench;
        EXPECT_EQ(bench.feed(text).stop, Stop::CloseFlushed) << text;
        EXPECT_TRUE(bench.answers().empty());
    }
    for (const Magic magic :
         {Magic::kClientResponse, Magic::kAltClientResponse, Magic::kServerRequest}) {
        Bench bench;
        bench.feed(getBytes("a", 1));
        EXPECT_EQ(bench.feed(Frame{.magic = magic}.bytes()).stop, Stop::CloseFlushed);
        EXPECT_EQ(bench.answers().size(), 1U) << "earlier requests are answered";
    }
}

TEST(RequestLoop, ImpossibleLengthsAreAnsweredThenClosed) {
    Bench bench;
    std::string bytes = getBytes("key", 3);
    bytes[11] = 1;  // body shorter than the key
    EXPECT_EQ(bench.feed(bytes).stop, Stop::CloseFlushed);
    const auto answers = bench.answers();
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].status, Status::kEinval);
    EXPECT_EQ(answers[0].opaque, 3U);
}

TEST(RequestLoop, OversizedBodiesAreRefusedFromTheHeaderAlone) {
    Bench bench;
    std::string header = setBytes("key", "", 4).substr(0, protocol::kHeaderSize);
    header[8] = 0x7f;
    EXPECT_EQ(bench.feed(header).stop, Stop::CloseFlushed);
    const auto answers = bench.answers();
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].status, Status::kE2big);
}

TEST(RequestLoop, ALittleTooLongIsAnsweredAndSkipped) {
    // 22 MiB: more than is ever buffered, in pieces and at once.
    const std::string tooLong = setBytes("key", std::string(22 << 20, 'x'), 1);
    for (const size_t first : {protocol::kHeaderSize + 8 + 3, size_t{100'000}, tooLong.size()}) {
        Bench bench;
        bench.feed(setBytes("key", "old"));
        bench.answers();
        const std::string_view bytes(tooLong);
        EXPECT_EQ(bench.feed(bytes.substr(0, first)).stop, Stop::NeedInput);
        EXPECT_TRUE(bench.pending.empty()) << "nothing of it is kept";
        const auto refused = bench.answers();
        ASSERT_EQ(refused.size(), 1U);
        EXPECT_EQ(refused[0].status, Status::kE2big);
        bench.feed(bytes.substr(first));
        bench.feed(getBytes("key", 2));
        const auto after = bench.answers();
        ASSERT_EQ(after.size(), 1U);
        EXPECT_EQ(after[0].status, Status::kKeyEnoent) << "the old value went with it";
    }
}

TEST(RequestLoop, ALongValueThatIsNotStoredIsSkipped) {
    for (const auto& [opcode, status] :
         {std::pair{Opcode::kHello, Status::kE2big},
          std::pair{static_cast<Opcode>(0x77), Status::kUnknownCommand}}) {
        Bench bench;
        const auto bytes =
                Frame{.opcode = opcode, .key = "t", .value = std::string(1 << 20, 'x')}.bytes();
        EXPECT_EQ(bench.feed(std::string_view(bytes).substr(0, 100'000)).stop, Stop::NeedInput);
        EXPECT_TRUE(bench.pending.empty()) << "nothing of it is kept";
        const auto refused = bench.answers();
        ASSERT_EQ(refused.size(), 1U);
        EXPECT_EQ(refused[0].status, status);
        bench.feed(std::string_view(bytes).substr(100'000));
        EXPECT_EQ(bench.ask({.opcode = Opcode::kNoop}).status, Status::kSuccess);
    }
}

TEST(RequestLoop, LittleMayBeSentBeforeLogin) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    Bench bench(&users);
    const auto large = setBytes("key", std::string(100'000, 'x'), 1);
    EXPECT_EQ(bench.feed(std::string_view(large).substr(0, 50)).stop, Stop::NeedInput);
    EXPECT_TRUE(bench.pending.empty());
    auto answers = bench.answers();
    ASSERT_EQ(answers.size(), 1U) << "refused before the value has come";
    EXPECT_EQ(answers[0].status, Status::kAuthError);
    bench.feed(std::string_view(large).substr(50));
    // A client that has not logged in may ask for nothing of that length.
    bench.feed(Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = std::string(20'000, 'x')}
                       .bytes());
    answers = bench.answers();
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].status, Status::kE2big);
    EXPECT_EQ(bench.ask({.opcode = Opcode::kNoop}).status, Status::kSuccess);
}

TEST(RequestLoop, TimingsAreTakenPerOpcode) {
    Bench bench;
    bench.feed(conversation());
    ASSERT_NE(bench.stats.timing(Opcode::kGet), nullptr);
    EXPECT_EQ(bench.stats.timing(Opcode::kGet)->count(), 4U);
    EXPECT_EQ(bench.stats.timing(Opcode::kDelete), nullptr);
    bench.stats.reset();
    EXPECT_EQ(bench.stats.timing(Opcode::kGet), nullptr);
    EXPECT_EQ(bench.stats.requests.get(), 0U);
    bench.feed(getBytes("a"));
    EXPECT_EQ(bench.stats.timing(Opcode::kGet)->count(), 1U);
    EXPECT_EQ(bench.stats.requests.get(), 1U);
}

TEST(FrontEndStats, SamplesOneInNOnAverage) {
    FrontEndStats stats(32);
    int sampled = 0;
    for (int i = 0; i < 320'000; ++i) {
        sampled += stats.sample() ? 1 : 0;
    }
    EXPECT_NEAR(sampled, 10'000, 300);
    FrontEndStats never(0);
    EXPECT_FALSE(never.sample());
}

}  // namespace
}  // namespace kv::server
