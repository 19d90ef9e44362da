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

TEST(Listener, AnErrorWithOneSocketDoesNotEndTheOthers) {
    const EventBasePtr base(event_base_new());
    Listener listener("127.0.0.1", 0);
    int served = 0;
    listener.start(base.get(), [&served](Fd) {
        if (++served == 1) {
            throw std::bad_alloc();
        }
    });
    const Client first(listener.port());
    const Client second(listener.port());
    while (served < 2) {
        ASSERT_EQ(event_base_loop(base.get(), EVLOOP_ONCE), 0);
    }
    listener.stop();
}

TEST(Listener, APortInUseIsReported) {
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
