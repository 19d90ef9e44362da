// Limits on bytes, connections and time that clients may hold, before and after login.
#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::chrono_literals;

TEST_F(ServerTest, ASlowReaderIsNotServedBeyondItsBound) {
    start({.maxUnsentBytes = 256 << 10});
    auto client = connect(64 << 10);
    // Long keys: the kernel's buffers hold fewer requests, so there are fewer answers to read.
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

TEST_F(ServerTest, HalfARequestIsClosedEventually) {
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
    EXPECT_TRUE(eventually([this] {
        return sum(&FrontEndStats::bufferLimitCloses) >= 8 &&
               context().buffers.held() < size_t{6} << 20;
    }));
}

TEST_F(ServerTest, TheLargestHolderGoesFirst) {
    start({.maxBufferedBytes = 8 << 20});
    // A buffer holds up to half as much again as has arrived: 5 MiB fit; with six more of 700 KiB
    // they do not, and those six alone do.
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
    for (auto& client : small) {  // the rest of their requests is still read
        client.send(half.substr(0, 1000));
    }
    EXPECT_EQ(context().connections.load(), 6U);
}

TEST_F(ServerTest, LittleIsHeldBeforeLogin) {
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

TEST_F(ServerTest, SlowRequestsAreClosed) {
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
    EXPECT_LT(sent, request.size())
            << "a slow trickle of bytes must not hold a connection indefinitely";
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

/// Logs in by PLAIN, and returns the status of the answer.
Status logIn(Client& client, const std::string& user) {
    using namespace std::string_literals;
    client.send(
            Frame{.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0"s + user + "\0secret"s}
                    .bytes());
    const auto answers = client.receive(1);
    return answers.empty() ? Status::kEinternal : answers[0].status;
}

TEST_F(ServerTest, UsersDoNotKeepAdministratorsOut) {
    const UserStore users(std::map<std::string, User>{{"app", {"secret", Role::ReadOnly}},
                                                      {"root", {"secret", Role::Admin}}});
    start({.maxConnections = 4, .reservedConnections = 2}, &users);
    std::vector<Client> apps;
    for (int i = 0; i < 4; ++i) {
        apps.push_back(connect());
        EXPECT_EQ(logIn(apps.back(), "app"), Status::kSuccess);
    }
    {
        auto late = connect();
        EXPECT_EQ(logIn(late, "app"), Status::kEtmpfail);
        EXPECT_TRUE(late.atEnd());
    }
    ASSERT_TRUE(eventually([this] { return context().connections.load() == 4; }));
    std::vector<Client> roots;
    for (int i = 0; i < 2; ++i) {
        roots.push_back(connect());
        EXPECT_EQ(logIn(roots.back(), "root"), Status::kSuccess);
    }
    EXPECT_TRUE(connect().atEnd()) << "the reserve is used up";
    EXPECT_EQ(context().rejectedConnections.load(), 2U);
    apps.pop_back();
    ASSERT_TRUE(eventually([this] { return context().userConnections.load() == 3; }));
    apps.push_back(connect());
    EXPECT_EQ(logIn(apps.back(), "app"), Status::kSuccess);
    EXPECT_EQ(logIn(apps.front(), "root"), Status::kSuccess) << "and is no user's any more";
    EXPECT_EQ(context().userConnections.load(), 3U);
}

TEST_F(ServerTest, AConnectionThatHasLostItsLoginMakesRoomForOthers) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({.maxConnections = 1, .reservedConnections = 0, .loginSeconds = 3600}, &users, 1);
    auto lost = connect();
    EXPECT_EQ(logIn(lost, "ann"), Status::kSuccess);
    std::this_thread::sleep_for(2500ms);  // until a sweep has seen it logged in
    EXPECT_EQ(logIn(lost, "eve"), Status::kAuthError);
    bool served = false;
    for (int attempt = 0; attempt < 200 && !served; ++attempt) {
        auto next = connect();
        served = logIn(next, "ann") == Status::kSuccess;
        std::this_thread::sleep_for(50ms);
    }
    EXPECT_TRUE(served);
    EXPECT_TRUE(lost.atEnd());
}

TEST_F(ServerTest, ConnectionsWithoutLoginOfOneThreadMakeRoomForOthers) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({.maxConnections = 3, .reservedConnections = 0}, &users, 2);
    std::vector<Client> strangers;
    for (uint32_t kept = 1; kept <= 3; ++kept) {  // of two that follow each other, one thread's
        strangers.push_back(connect());
        ASSERT_TRUE(eventually([&] { return context().connections.load() == kept; }));
        if (kept < 3) {
            auto other = connect();
            ASSERT_TRUE(eventually([&] { return context().connections.load() == kept + 1; }));
        }
        ASSERT_TRUE(eventually([&] { return context().connections.load() == kept; }));
    }
    auto user = connect();  // of the other thread
    EXPECT_EQ(logIn(user, "ann"), Status::kSuccess);
    EXPECT_TRUE(strangers.front().atEnd());
}

TEST_F(ServerTest, ConnectionsWithoutLoginDoNotKeepUsersOut) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    start({.maxConnections = 4, .reservedConnections = 0}, &users, 1);
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

}  // namespace
}  // namespace kv::server
