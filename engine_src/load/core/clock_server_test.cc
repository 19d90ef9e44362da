// CPU clocks over a socket: server and client together, and clients that do not know the password.
#include "load/core/clock_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "load/core/clock_protocol.h"
#include "load/core/cpu_clock.h"
#include "load/core/load_error.h"
#include "load/core/thread_meter.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/fake_server.h"

namespace kv::load {
namespace {

constexpr std::chrono::milliseconds kPatience{10'000};

/// A stopped process, so that its clock stands still, until it is killed.
class Child {
  public:
    Child() : pid_(::fork()) {
        if (pid_ == 0) {
            for (;;) {
                ::raise(SIGSTOP);
            }
        }
        ::waitpid(pid_, nullptr, WUNTRACED);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { end(); }

    int pid() const { return pid_; }
    void end() {
        if (!ended_) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
            ended_ = true;
        }
    }

  private:
    pid_t pid_;
    bool ended_ = false;
};

class Clocks : public testing::Test {
  protected:
    Child child_;  // started before there are threads
    Socket stop_{::eventfd(0, EFD_CLOEXEC)};
    ClockServer server_{{"127.0.0.1", 0}, "secret", {child_.pid(), ::getpid()}};
    std::thread thread_{[this] { server_.run(stop_); }};

    ~Clocks() override {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(stop_.fd(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
        thread_.join();
    }

    Address address() const { return {"127.0.0.1", server_.port()}; }
    std::shared_ptr<ClockConnection> connectClocks() const {
        return std::make_shared<ClockConnection>(address(), "secret", kPatience);
    }
    Socket connect() const { return connectTcp("127.0.0.1", server_.port(), kPatience); }

    /// Returns the number of bytes that come until the server closes.
    static std::size_t readAll(const Socket& socket) {
        std::size_t all = 0;
        for (;;) {
            waitReady(socket, false, kPatience);
            char bytes[256];
            const auto got = ::recv(socket.fd(), bytes, sizeof(bytes), 0);
            if (got <= 0) {
                return all;
            }
            all += static_cast<std::size_t>(got);
        }
    }
    static void say(Socket& socket, const std::string& text) {
        sendAll(socket, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()},
                kPatience);
    }
};

constexpr std::size_t kGreeting = kClockMagic.size() + kClockNonceSize;

Nanos askAndRead(CpuClock& clock) {
    clock.ask();
    return clock.read();
}

TEST_F(Clocks, AreTheProcessesClocks) {
    const auto connection = connectClocks();
    RemoteCpuClock mine(connection, ::getpid());
    RemoteCpuClock childs(connection, child_.pid());
    ProcessCpuClock here(::getpid());
    const auto idle = askAndRead(childs);
    for (int i = 0; i < 100; ++i) {
        const auto before = here.read();
        const auto asked = askAndRead(mine);
        const auto after = here.read();
        EXPECT_LE(before, asked);
        EXPECT_LE(asked, after);
    }
    EXPECT_EQ(askAndRead(childs), idle);
    EXPECT_LT(idle, kSecond);
}

TEST_F(Clocks, OfOneConnectionAreReadByOneQuestion) {
    const auto connection = connectClocks();
    RemoteCpuClock mine(connection, ::getpid());
    RemoteCpuClock childs(connection, child_.pid());
    ProcessCpuClock here(::getpid());
    mine.ask();
    childs.ask();
    childs.read();
    const auto after = here.read();
    EXPECT_LE(mine.read(), after) << "it was read together with the other";
}

TEST_F(Clocks, NeedThePassword) {
    EXPECT_THROW(ClockConnection(address(), "wrong", kPatience), LoadError);
    EXPECT_THROW(ClockConnection(address(), "", kPatience), LoadError);
    auto stranger = connect();
    say(stranger, std::string(kClockProofSize, '\0'));
    EXPECT_EQ(readAll(stranger), kGreeting);
    // A proof for another connection's nonce is not accepted.
    auto other = connect();
    say(other, clockProof("secret", std::string(kClockNonceSize, 'x')));
    EXPECT_EQ(readAll(other), kGreeting);
    auto talker = connect();
    say(talker, std::string(10'000, 'x'));
    // Closed with bytes unread: a reset may overtake the greeting.
    EXPECT_LE(readAll(talker), kGreeting);
}

TEST_F(Clocks, AreServedBesideManyStrangers) {
    std::vector<Socket> strangers;
    for (std::size_t count = 0; count < ClockServer::kMaxClients; ++count) {
        strangers.push_back(connect());
    }
    connectClocks();
    EXPECT_EQ(readAll(strangers.front()), kGreeting);
    // The others have not reached their time limit, so no place became free that way.
    std::string greeting(kGreeting + 1, '\0');
    waitReady(strangers.back(), false, kPatience);
    const auto all = static_cast<ssize_t>(kGreeting);
    EXPECT_EQ(::recv(strangers.back().fd(), greeting.data(), greeting.size(), 0), all);
    EXPECT_EQ(::recv(strangers.back().fd(), greeting.data(), 1, MSG_DONTWAIT), -1);
}

TEST_F(Clocks, OfOtherProcessesAreRefused) {
    EXPECT_THROW(RemoteCpuClock(connectClocks(), ::getppid()), LoadError);
    auto curious = connect();
    std::string greeting(kGreeting, '\0');
    for (std::size_t have = 0; have < greeting.size();) {
        waitReady(curious, false, kPatience);
        const auto got = ::recv(curious.fd(), greeting.data() + have, greeting.size() - have, 0);
        ASSERT_GT(got, 0);
        have += static_cast<std::size_t>(got);
    }
    // The proof, and at once a question and something else.
    say(curious, clockProof("secret", greeting.substr(kClockMagic.size())) + "?x");
    EXPECT_EQ(readAll(curious), 4 + 2 * 4U);
}

TEST_F(Clocks, AProcessThatHasEndedHasNoClock) {
    const auto connection = connectClocks();
    RemoteCpuClock clock(connection, child_.pid());
    RemoteCpuClock mine(connection, ::getpid());
    askAndRead(clock);
    child_.end();
    EXPECT_THROW(askAndRead(clock), LoadError);
    EXPECT_GT(askAndRead(mine), 0);
}

TEST_F(Clocks, AreReadByAGroup) {
    FakeServer one;
    FakeServer two;
    PillowfightOptions options;
    options.connection.opTimeout = 5;
    for (const auto* server : {&one, &two}) {
        Variant variant;
        variant.session.port = server->port();
        variant.session.password = "secret";
        variant.clock = address();
        variant.pid = server == &one ? child_.pid() : ::getpid();
        options.group.variants.push_back(variant);
    }
    options.noPopulation = true;
    options.duration = 0.05;
    nlohmann::ordered_json report;
    ProcessCpuClock mine(::getpid());
    const auto before = mine.read();
    EXPECT_EQ(runPillowfight(options, report).failure, "");
    const auto taken = mine.read() - before;
    const auto sum = [&](std::size_t variant, const char* figure) {
        Nanos total = 0;
        for (const auto& value : report["group"]["variants"][variant]["slices"][figure]) {
            total += value.get<Nanos>();
        }
        return total;
    };
    EXPECT_EQ(sum(0, "cpu_ns"), 0);  // the child is stopped
    EXPECT_EQ(sum(1, "foreign_cpu_ns"), 0);
    // No time is counted twice.
    EXPECT_LE(sum(1, "own_cpu_ns") + sum(0, "foreign_cpu_ns"), taken);
    EXPECT_LE(sum(1, "cpu_ns"), taken);
    EXPECT_GT(sum(1, "own_cpu_ns"), sum(1, "client_cpu_ns"));
    EXPECT_GT(sum(1, "cpu_ns"), sum(1, "client_cpu_ns"));

    // The CPU time of a cluster is that of all its nodes, wherever their clocks are read.
    options.group.variants[0].nodes = {{child_.pid(), {}}, {::getpid(), address()}};
    EXPECT_EQ(runPillowfight(options, report).failure, "");
    EXPECT_GT(sum(0, "cpu_ns"), sum(0, "client_cpu_ns"));

    options.group.variants[1].session.password = "wrong";
    EXPECT_NE(runPillowfight(options, report).failure.find("clock server"), std::string::npos);
    EXPECT_EQ(report["failed_variant"], 1);
}

TEST(ClockServer, WantsRunningProcessesAndAPassword) {
    Child child;
    child.end();
    const Address any{"127.0.0.1", 0};
    EXPECT_THROW(ClockServer(any, "secret", {child.pid()}), LoadError);
    EXPECT_THROW(ClockServer(any, "secret", {::getpid(), 0x3fffffff}), LoadError);
    EXPECT_THROW(ClockServer(any, "secret", {}), LoadError);
    EXPECT_THROW(ClockServer(any, "", {::getpid()}), LoadError);
    EXPECT_THROW(ClockServer({"no.such.host.invalid", 0}, "secret", {::getpid()}), LoadError);
}

}  // namespace
}  // namespace kv::load
