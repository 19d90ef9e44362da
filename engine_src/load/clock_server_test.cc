// The CPU clocks of processes over a socket: server and client together, and what strangers get.
#include "load/clock_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "load/clock_protocol.h"
#include "load/fake_server.h"
#include "load/load_error.h"
#include "load/pillowfight.h"
#include "load/remote_cpu_clock.h"
#include "load/thread_meter.h"

namespace kv::load {
namespace {

constexpr std::chrono::milliseconds kPatience{10'000};

/// A process that is stopped, so that its clock stands still, until it is killed.
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
    Child child_;  // before there are threads
    Socket stop_{::eventfd(0, EFD_CLOEXEC)};
    ClockServer server_{{"127.0.0.1", 0}, "secret", {child_.pid(), ::getpid()}};
    std::thread thread_{[this] { server_.run(stop_); }};

    ~Clocks() override {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(stop_.fd(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
        thread_.join();
    }

    Address address() const { return {"127.0.0.1", server_.port()}; }
    Socket connect() const { return connectTcp("127.0.0.1", server_.port(), kPatience); }

    /// All that comes until the server closes.
    static std::size_t hearAll(const Socket& socket) {
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
    static void say(const Socket& socket, const std::string& text) {
        sendAll(socket, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()},
                kPatience);
    }
};

constexpr std::size_t kGreeting = kClockMagic.size() + kClockNonceSize;

TEST_F(Clocks, AreThoseOfTheProcesses) {
    RemoteCpuClock mine(address(), "secret", ::getpid(), kPatience);
    RemoteCpuClock childs(address(), "secret", child_.pid(), kPatience);
    ProcessCpuClock here(::getpid());
    const auto idle = childs.read();
    for (int i = 0; i < 100; ++i) {
        const auto before = here.read();
        const auto asked = mine.read();
        const auto after = here.read();
        EXPECT_LE(before, asked);
        EXPECT_LE(asked, after);
    }
    EXPECT_EQ(childs.read(), idle);
    EXPECT_LT(idle, kSecond);
}

TEST_F(Clocks, AreNotForWhoDoesNotKnowThePassword) {
    EXPECT_THROW(RemoteCpuClock(address(), "wrong", ::getpid(), kPatience), LoadError);
    EXPECT_THROW(RemoteCpuClock(address(), "", ::getpid(), kPatience), LoadError);
    const auto stranger = connect();
    say(stranger, std::string(kClockProofSize, '\0'));
    EXPECT_EQ(hearAll(stranger), kGreeting);
    // A proof for another connection's nonce is worth nothing.
    const auto other = connect();
    say(other, clockProof("secret", std::string(kClockNonceSize, 'x')));
    EXPECT_EQ(hearAll(other), kGreeting);
    const auto talker = connect();
    say(talker, std::string(10'000, 'x'));
    EXPECT_LE(hearAll(talker), kGreeting);  // closed with bytes unread: a reset may overtake it
}

TEST_F(Clocks, OthersThanThoseServedAreRefused) {
    EXPECT_THROW(RemoteCpuClock(address(), "secret", ::getppid(), kPatience), LoadError);
    const auto curious = connect();
    std::string greeting(kGreeting, '\0');
    for (std::size_t have = 0; have < greeting.size();) {
        waitReady(curious, false, kPatience);
        const auto got = ::recv(curious.fd(), greeting.data() + have, greeting.size() - have, 0);
        ASSERT_GT(got, 0);
        have += static_cast<std::size_t>(got);
    }
    // Proof and two questions at once: index 0, and one that there is not.
    say(curious, clockProof("secret", greeting.substr(kClockMagic.size())) +
                         std::string("\0\0\0\0\0\0\0\2", 8));
    EXPECT_EQ(hearAll(curious), 4 + 2 * 4 + 8U);
}

TEST_F(Clocks, AProcessThatHasEndedHasNoClockAnyMore) {
    RemoteCpuClock clock(address(), "secret", child_.pid(), kPatience);
    RemoteCpuClock mine(address(), "secret", ::getpid(), kPatience);
    clock.read();
    child_.end();
    EXPECT_THROW(clock.read(), LoadError);
    EXPECT_GT(mine.read(), 0);
}

TEST_F(Clocks, AreWhatAnEnsembleReads) {
    FakeServer one;
    FakeServer two;
    PillowfightOptions options;
    options.connection.opTimeout = 5;
    for (const auto* server : {&one, &two}) {
        Arm arm;
        arm.session.port = server->port();
        arm.session.password = "secret";
        arm.clock = address();
        arm.pid = server == &one ? child_.pid() : ::getpid();
        options.ensemble.arms.push_back(arm);
    }
    options.noPopulation = true;
    options.duration = 0.05;
    nlohmann::ordered_json report;
    EXPECT_EQ(runPillowfight(options, report).failure, "");
    const auto sum = [&](std::size_t arm, const char* figure) {
        Nanos total = 0;
        for (const auto& value : report["ensemble"]["arms"][arm]["slices"][figure]) {
            total += value.get<Nanos>();
        }
        return total;
    };
    EXPECT_EQ(sum(0, "cpu_ns"), 0);  // the child is stopped
    EXPECT_GT(sum(1, "cpu_ns"), sum(1, "client_cpu_ns"));

    // A cluster's CPU time is that of all its nodes, wherever their clocks are read.
    options.ensemble.arms[0].nodes = {{child_.pid(), {}}, {::getpid(), address()}};
    EXPECT_EQ(runPillowfight(options, report).failure, "");
    EXPECT_GT(sum(0, "cpu_ns"), sum(0, "client_cpu_ns"));

    options.ensemble.arms[1].session.password = "wrong";
    EXPECT_NE(runPillowfight(options, report).failure.find("clock server"), std::string::npos);
    EXPECT_EQ(report["failed_arm"], 1);
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
