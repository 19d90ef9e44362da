// The whole server in this process, over loopback sockets.
#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::chrono_literals;

TEST_F(ServerTest, AnswersAPipelineInOrderWithOneWake) {
    start();
    auto client = connect();
    std::string pipeline;
    for (uint32_t i = 0; i < 100; ++i) {
        pipeline += setBytes("key" + std::to_string(i), std::string(100, 'v'), i);
    }
    client.send(pipeline);
    const auto answers = client.receive(100);
    ASSERT_EQ(answers.size(), 100U);
    for (uint32_t i = 0; i < 100; ++i) {
        EXPECT_EQ(answers[i].opaque, i);
        EXPECT_EQ(answers[i].status, Status::kSuccess);
    }
}

TEST_F(ServerTest, RequestsLargerThanTheReadBuffer) {
    start({.readBufferBytes = 4096});
    auto client = connect();
    client.send(Frame{.opcode = Opcode::kHello, .key = "t"}.bytes());  // beyond memcached's 1 MiB
    ASSERT_EQ(client.receive(1).size(), 1U);
    for (const size_t size : {4000U, 4064U, 4065U, 4096U, 5000U, 1U << 20U, 20U << 20U}) {
        const std::string value(size, static_cast<char>('a' + size % 7));
        client.send(setBytes("big", value) + getBytes("big"));
        const auto answers = client.receive(2);
        ASSERT_EQ(answers.size(), 2U) << size;
        EXPECT_EQ(answers[0].status, Status::kSuccess) << size;
        EXPECT_TRUE(answers[1].value == value) << size;
    }
    EXPECT_TRUE(eventually([this] { return context().buffers.held() < 20'000; }))
            << "buffers of large requests are given back: " << context().buffers.held();
}

TEST_F(ServerTest, ALargeValueIsReadIntoItsPlaceAndGivenBackWhenItsClientGoes) {
    start();
    auto& memory = bucket_->memory();
    auto client = connect();
    constexpr size_t kSize = 1 << 20;
    client.send(setBytes("k", std::string(kSize, 'a')) + getBytes("k"));
    ASSERT_EQ(client.receive(2).size(), 2U);
    const size_t before = memory.precise();
    const auto bytes = setBytes("k", std::string(kSize, 'b'));
    {
        auto leaving = connect();
        leaving.send(std::string_view(bytes).substr(0, kSize / 2));
        EXPECT_TRUE(eventually([&] { return memory.precise() >= before + kSize; }))
                << "the bucket is charged for it";
        EXPECT_TRUE(eventually([&] { return context().buffers.held() >= kSize; }))
                << "and it counts among what connections hold";
    }
    EXPECT_TRUE(eventually([&] { return memory.precise() == before; }));
    EXPECT_TRUE(eventually([&] { return context().buffers.held() < 20'000; }));
    client.send(getBytes("k"));
    EXPECT_TRUE(client.receive(1).at(0).value == std::string(kSize, 'a')) << "nothing was changed";

    // In pieces, with other requests right behind it.
    for (size_t at = 0; at < bytes.size(); at += 100'000) {
        client.send(std::string_view(bytes).substr(at, 100'000));
        std::this_thread::sleep_for(1ms);
    }
    client.send(getBytes("k") + getBytes("k"));
    const auto answers = client.receive(3);
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_TRUE(answers[2].value == std::string(kSize, 'b'));
}

TEST_F(ServerTest, ALargeValueThatStopsComingEndsItsConnection) {
    start({.idlePartialSeconds = 1});
    const size_t before = bucket_->memory().precise();
    auto stalled = connect();
    stalled.send(setBytes("k", std::string(1 << 20, 'x')).substr(0, 300'000));
    EXPECT_TRUE(stalled.atEnd());
    EXPECT_EQ(sum(&FrontEndStats::overdueCloses), 1U);
    EXPECT_TRUE(eventually([&] { return bucket_->memory().precise() <= before; }));
}

TEST_F(ServerTest, LargeValuesInAPipelineAreAnsweredInOrder) {
    start();
    auto client = connect();
    std::string pipeline;
    std::vector<std::string> values;
    for (uint32_t i = 0; i < 8; ++i) {
        // From such that fit a read to such that are longer than a turn together.
        values.emplace_back(50'000 + i * 120'001, static_cast<char>('a' + i));
        pipeline += setBytes("k" + std::to_string(i), values.back(), 3 * i);
        pipeline += i % 3 == 0 ? getBytes("none", 3 * i + 1) : std::string();
        pipeline += i % 2 == 0 ? getBytes("k" + std::to_string(i / 2), 3 * i + 2) : std::string();
    }
    const auto expected = [&values](const std::vector<Answer>& answers) {
        ASSERT_EQ(answers.size(), 8U + 3 + 4);
        uint32_t last = 0;
        for (const Answer& answer : answers) {
            EXPECT_GE(answer.opaque, last);
            last = answer.opaque;
            const uint32_t i = answer.opaque / 3;
            EXPECT_EQ(answer.status,
                      answer.opaque % 3 == 1 ? Status::kKeyEnoent : Status::kSuccess);
            if (answer.opaque % 3 == 2) {
                EXPECT_TRUE(answer.value == values[i / 2]) << i;
            }
        }
    };
    client.send(pipeline);
    expected(client.receive(15));
    client.send(pipeline + pipeline);
    auto both = client.receive(30);
    ASSERT_EQ(both.size(), 30U);
    expected({both.begin(), both.begin() + 15});
    expected({both.begin() + 15, both.end()});
}

TEST_F(ServerTest, LargeValuesMayBeCutAnywhere) {
    start({.readBufferBytes = 128}, nullptr, 1);  // of which these are larger
    auto client = connect();
    const std::string first(200, 'a');
    const std::string second(150, 'b');
    const auto bytes = setBytes("first", first) + setBytes("second", second) + getBytes("first") +
                       getBytes("second");
    uint64_t read = 0;
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
        client.send(std::string_view(bytes).substr(0, cut));
        ASSERT_TRUE(hasRead(read + cut)) << cut;
        client.send(std::string_view(bytes).substr(cut));
        read += bytes.size();
        const auto answers = client.receive(4);
        ASSERT_EQ(answers.size(), 4U) << cut;
        ASSERT_EQ(answers[2].value, first) << cut;
        ASSERT_EQ(answers[3].value, second) << cut;
    }
}

TEST_F(ServerTest, TheAnswersToLargeValuesComeThoughTheClientHasEnded) {
    start();
    const auto bytes = setBytes("k", std::string(300'000, 'x'));
    for (int round = 0; round < 20; ++round) {
        auto client = connect();
        client.send(bytes + bytes);
        client.endSending();
        EXPECT_EQ(client.receive(2).size(), 2U);
        EXPECT_TRUE(client.atEnd());
    }
}

TEST_F(ServerTest, AFlushInTheMiddleOfALargeValueComesBeforeIt) {
    start();
    auto client = connect();
    auto other = connect();
    const auto bytes = setBytes("k", std::string(300'000, 'x'));
    client.send(bytes);
    ASSERT_EQ(client.receive(1).size(), 1U);
    client.send(std::string_view(bytes).substr(0, 200'000));
    ASSERT_TRUE(hasRead(bytes.size() + 200'000));
    other.send(Frame{.opcode = Opcode::kFlush}.bytes() + getBytes("k"));
    const auto flushed = other.receive(2);
    ASSERT_EQ(flushed.size(), 2U);
    EXPECT_EQ(flushed[0].status, Status::kSuccess);
    EXPECT_EQ(flushed[1].status, Status::kKeyEnoent);
    client.send(std::string_view(bytes).substr(200'000));
    ASSERT_EQ(client.receive(1).size(), 1U);
    other.send(getBytes("k"));
    EXPECT_TRUE(other.receive(1).at(0).value == std::string(300'000, 'x'));
}

TEST_F(ServerTest, ALargeValueThatDoesNotFitTheQuotaIsRefusedAndTheNextIsRead) {
    start();
    auto client = connect();
    const size_t quota = bucket_->memory().quota();
    bucket_->setQuota(bucket_->memory().precise() + 200'000);
    const auto bytes = setBytes("k", std::string(1'000'000, 'x'));
    client.send(bytes + bytes + getBytes("k"));
    const auto refused = client.receive(3);
    ASSERT_EQ(refused.size(), 3U);
    for (const auto status : {refused[0].status, refused[1].status}) {
        EXPECT_TRUE(status == Status::kEnomem || status == Status::kEtmpfail) << toString(status);
    }
    EXPECT_EQ(refused[2].status, Status::kKeyEnoent);
    bucket_->setQuota(quota);
    client.send(bytes + bytes + getBytes("k"));
    const auto stored = client.receive(3);
    ASSERT_EQ(stored.size(), 3U);
    EXPECT_EQ(stored[0].status, Status::kSuccess);
    EXPECT_TRUE(stored[2].value == std::string(1'000'000, 'x'));
}

TEST_F(ServerTest, SingleByteWrites) {
    start();
    auto client = connect();
    for (const char byte : setBytes("k", "v") + getBytes("k")) {
        client.send(std::string_view(&byte, 1));
    }
    const auto answers = client.receive(2);
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[1].value, "v");
}

TEST_F(ServerTest, ASlowReaderIsNotServedBeyondItsBound) {
    start({.maxUnsentBytes = 256 << 10});
    auto client = connect(64 << 10);
    // Long keys: the kernel's buffers hold fewer requests, so that there are fewer answers to read.
    const std::string key(250, 'k');
    client.send(setBytes(key, std::string(1000, 'v')));
    ASSERT_EQ(client.receive(1).size(), 1U);
    std::string flood;
    for (int i = 0; i < 100'000; ++i) {
        flood += getBytes(key);
    }
    const size_t taken = client.sendWhatFits(flood, 500ms);
    EXPECT_LT(taken, flood.size()) << "the server must stop reading";
    EXPECT_LT(context().buffers.held(), size_t{1} << 20);
    EXPECT_GE(sum(&FrontEndStats::slowReaders), 1U);

    auto other = connect();
    other.send(getBytes(key));
    EXPECT_EQ(other.receive(1).size(), 1U) << "others are served";

    const size_t complete = taken / getBytes(key).size();
    EXPECT_EQ(client.receive(complete).size(), complete)
            << "every answer comes once it reads again";
}

TEST_F(ServerTest, ALargeValueIsSentAsItWasReadWhateverBecomesOfTheDocument) {
    start();
    auto reader = connect(64 << 10);
    auto writer = connect();
    for (auto* client : {&reader, &writer}) {
        client->send(Frame{.opcode = Opcode::kHello, .key = "t"}.bytes());
        ASSERT_EQ(client->receive(1).size(), 1U);
    }
    constexpr size_t kSize = 16 << 20;  // more than the sockets hold
    writer.send(setBytes("big", std::string(kSize, 'a')) + setBytes("small", "s"));
    ASSERT_EQ(writer.receive(2).size(), 2U);
    reader.send(getBytes("big") + getBytes("small") + getBytes("big"));
    ASSERT_TRUE(eventually([this] { return context().buffers.held() > kSize / 4; }));
    writer.send(setBytes("big", std::string(kSize, 'b')));
    ASSERT_EQ(writer.receive(1).size(), 1U);
    const auto answers = reader.receive(3);
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_TRUE(answers[0].value == std::string(kSize, 'a'));
    EXPECT_EQ(answers[1].value, "s");
    EXPECT_TRUE(answers[2].value == std::string(kSize, 'a') ||
                answers[2].value == std::string(kSize, 'b'));
    EXPECT_TRUE(eventually([&] { return context().buffers.held() < 100'000; }));
    EXPECT_LT(bucket_->memory().precise(), kSize + (2 << 20))
            << "nobody holds the old value any more";
}

TEST_F(ServerTest, AFloodOfRequestsLeavesOthersTheirTurn) {
    start({.maxRequestsPerTurn = 16}, nullptr, 1);
    auto greedy = connect();
    std::string flood;
    for (uint32_t i = 0; i < 2000; ++i) {
        flood += Frame{.opcode = Opcode::kNoop, .opaque = i}.bytes();
    }
    greedy.send(flood);
    const auto answers = greedy.receive(2000);
    ASSERT_EQ(answers.size(), 2000U);
    for (uint32_t i = 0; i < 2000; ++i) {
        ASSERT_EQ(answers[i].opaque, i);
    }
    EXPECT_GE(sum(&FrontEndStats::yields), 60U);
}

TEST_F(ServerTest, QuitGetsItsAnswerEvenWithUnreadInput) {
    start();
    auto client = connect();
    client.send(Frame{.opcode = Opcode::kQuit}.bytes() + std::string(200'000, 'x'));
    EXPECT_EQ(client.receive(1).size(), 1U);
    EXPECT_TRUE(client.atEnd());
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 0; }));
}

TEST_F(ServerTest, OversizedRequestGetsItsAnswerBeforeTheClose) {
    start();
    auto client = connect();
    auto header = setBytes("key", "").substr(0, protocol::kHeaderSize);
    header[8] = 0x7f;
    client.send(header);
    client.sendWhatFits(std::string(4 << 20, 'x'), 200ms);
    const auto answers = client.receive(1);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].status, Status::kE2big);
}

TEST_F(ServerTest, HalfARequestIsNotKeptForEver) {
    start({.idlePartialSeconds = 1});
    auto stalled = connect();
    stalled.send(getBytes("key").substr(0, 20));
    auto idle = connect();
    idle.send(getBytes("key"));
    EXPECT_EQ(idle.receive(1).size(), 1U);
    EXPECT_TRUE(stalled.atEnd());
    idle.send(getBytes("key"));
    EXPECT_EQ(idle.receive(1).size(), 1U) << "idle between requests is no offence";
}

TEST_F(ServerTest, ConnectionsTogetherHoldABoundedAmount) {
    start({.maxBufferedBytes = 4 << 20});
    std::vector<Client> clients;
    for (int i = 0; i < 16; ++i) {
        clients.push_back(connect());
        clients.back().sendWhatFits(setBytes("k", std::string(2 << 20, 'x')).substr(0, 1 << 20),
                                    50ms);
    }
    EXPECT_TRUE(eventually([this] { return sum(&FrontEndStats::bufferLimitCloses) >= 8; }));
    EXPECT_LT(context().buffers.held(), size_t{6} << 20);
}

TEST_F(ServerTest, TheLargestHolderGoesFirst) {
    start({.maxBufferedBytes = 8 << 20});
    // A buffer holds up to half as much again as has come: 5 MiB fit, with 6 times 700 KiB they do
    // not, and these alone do.
    const auto half = setBytes("k", std::string(12 << 20, 'x')).substr(0, 5 << 20);
    auto large = connect();
    large.send(half);
    ASSERT_TRUE(eventually([this] { return context().buffers.held() >= size_t{5} << 20; }));
    std::vector<Client> small;
    for (int i = 0; i < 6; ++i) {
        small.push_back(connect());
        small.back().send(half.substr(0, 700 << 10));
    }
    EXPECT_TRUE(large.atEnd());
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 6; }));
    EXPECT_EQ(sum(&FrontEndStats::bufferLimitCloses), 1U);
    for (auto& client : small) {  // the rest of theirs is still wanted
        client.send(half.substr(0, 1000));
    }
    EXPECT_EQ(context().connections.load(), 6U);
}

TEST_F(ServerTest, StrangersHoldLittle) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({}, &users);
    std::vector<Client> strangers;
    const auto large = setBytes("k", std::string(20 << 20, 'x'));
    for (int i = 0; i < 8; ++i) {
        strangers.push_back(connect());
        strangers.back().send(std::string_view(large).substr(0, 1 << 20));
    }
    for (auto& stranger : strangers) {
        const auto answers = stranger.receive(1);
        ASSERT_EQ(answers.size(), 1U) << "refused before all of it is there";
        EXPECT_EQ(answers[0].status, Status::kAuthError);
    }
    EXPECT_LT(context().buffers.held(), 8U * (24 << 10));
    strangers[0].send(std::string_view(large).substr(1 << 20));
    strangers[0].send(Frame{.opcode = Opcode::kNoop}.bytes());
    EXPECT_EQ(strangers[0].receive(1).size(), 1U) << "the rest was skipped";
}

TEST_F(ServerTest, WhatTakesTooLongIsClosed) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({.frameDeadlineSeconds = 1, .loginSeconds = 1}, &users);
    using namespace std::string_literals;
    const auto login =
            Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0secret"s}.bytes();
    auto stranger = connect();
    auto dripping = connect();
    auto known = connect();
    for (auto* client : {&dripping, &known}) {
        client->send(login);
        ASSERT_EQ(client->receive(1).size(), 1U);
    }
    const auto request = setBytes("key", std::string(10'000, 'x'));
    size_t sent = 0;
    while (sent < request.size() && dripping.sendWhatFits(request.substr(sent, 1), 5ms) == 1) {
        ++sent;
        stranger.sendWhatFits(Frame{.opcode = Opcode::kNoop}.bytes(), 5ms);
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_LT(sent, request.size()) << "a byte now and then must not hold a connection for ever";
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 1; }));
    known.send(Frame{.opcode = Opcode::kNoop}.bytes());
    EXPECT_EQ(known.receive(1).size(), 1U) << "idle, but logged in";
    EXPECT_EQ(sum(&FrontEndStats::overdueCloses), 2U);
}

TEST_F(ServerTest, MoreConnectionsThanAllowedAreClosedAndCounted) {
    start({.maxConnections = 2});
    auto one = connect();
    auto two = connect();
    one.send(getBytes("k"));
    two.send(getBytes("k"));
    EXPECT_EQ(one.receive(1).size(), 1U);
    EXPECT_EQ(two.receive(1).size(), 1U);
    EXPECT_TRUE(connect().atEnd());
    EXPECT_EQ(context().rejectedConnections.load(), 1U);
    { auto gone = std::move(one); }
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 1; }));
    auto three = connect();
    three.send(getBytes("k"));
    EXPECT_EQ(three.receive(1).size(), 1U);
}

TEST_F(ServerTest, StrangersDoNotKeepUsersOut) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({.maxConnections = 4}, &users, 1);
    using namespace std::string_literals;
    const auto login = [](Client& client) {
        client.send(Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0secret"s}
                            .bytes());
        const auto answers = client.receive(1);
        return answers.size() == 1 && answers[0].status == Status::kSuccess;
    };
    std::vector<Client> known;
    known.push_back(connect());
    ASSERT_TRUE(login(known.back()));
    std::vector<Client> strangers;
    for (int i = 0; i < 20; ++i) {
        strangers.push_back(connect());
    }
    for (int i = 0; i < 17; ++i) {
        EXPECT_TRUE(strangers[static_cast<size_t>(i)].atEnd()) << "the oldest makes room, " << i;
    }
    for (int i = 0; i < 3; ++i) {
        known.push_back(connect());
        EXPECT_TRUE(login(known.back()));
    }
    EXPECT_TRUE(strangers.back().atEnd());
    EXPECT_TRUE(connect().atEnd()) << "of users there are not more than there may be";
    for (auto& client : known) {
        client.send(Frame{.opcode = Opcode::kNoop}.bytes());
        EXPECT_EQ(client.receive(1).size(), 1U);
    }
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 4; }));
    EXPECT_EQ(context().rejectedConnections.load(), 21U);
}

TEST_F(ServerTest, FailedLoginsAreAnsweredLate) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({.authDelayMillis = 200}, &users);
    auto client = connect();
    const auto begin = std::chrono::steady_clock::now();
    using namespace std::string_literals;
    client.send(
            Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0wrong"s}.bytes() +
            Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0ann\0secret"s}.bytes() +
            Frame{.opcode = Opcode::kNoop}.bytes());
    const auto answers = client.receive(3);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 190ms);
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(answers[0].status, Status::kAuthError);
    EXPECT_EQ(answers[1].status, Status::kSuccess);
}

TEST_F(ServerTest, ManyClientsAtOnce) {
    start();
    std::vector<std::thread> threads;
    threads.reserve(4);
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([this, t, &wrong] {
            for (int connection = 0; connection < 3; ++connection) {
                auto client = connect();
                for (int round = 0; round < 30; ++round) {
                    std::string batch;
                    for (int i = 0; i < 20; ++i) {
                        batch += setBytes("k" + std::to_string(i), std::to_string(t));
                        batch += getBytes("k" + std::to_string(i));
                    }
                    client.send(batch);
                    for (const auto& answer : client.receive(40)) {
                        wrong += answer.status == Status::kSuccess ? 0 : 1;
                    }
                }
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(sum(&FrontEndStats::requests), 4U * 3 * 30 * 40);
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 0; }));
}

TEST_F(ServerTest, StopsWithClientsConnected) {
    start();
    auto client = connect();
    client.send(getBytes("k"));
    EXPECT_EQ(client.receive(1).size(), 1U);
    server_->requestStop();
    loop_.join();
    server_.reset();
    EXPECT_TRUE(client.atEnd());
}

TEST(Listener, APortInUseIsSaid) {
    Listener first("127.0.0.1", 0);
    const EventBasePtr base(event_base_new());
    first.start(base.get(), [](Fd) {});
    EXPECT_TRUE(first.loopback());
    try {
        Listener second("127.0.0.1", first.port());
        second.start(base.get(), [](Fd) {});
        FAIL() << "both listen";
    } catch (const ListenError& error) {
        EXPECT_NE(std::string(error.what()).find(std::to_string(first.port())), std::string::npos);
    }
    EXPECT_THROW(Listener("host.invalid", 0), ListenError);
    EXPECT_FALSE(Listener("0.0.0.0", 0).loopback());
}

}  // namespace
}  // namespace kv::server
