#include "load/core/cpu_clock.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>

#include "load/core/clock_protocol.h"
#include "load/core/load_error.h"
#include "load/core/socket.h"
#include "types/endian.h"

namespace kv::load {

namespace {

std::span<const std::uint8_t> bytesOf(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

ProcessCpuClock::ProcessCpuClock(int pid) : pid_(pid) {
    // A clock's id has 29 bits for the pid: a larger number would be the clock of another process.
    constexpr int kLargest = 1 << 22;  // the kernel's own limit
    const int error = pid < 1 || pid > kLargest ? ESRCH : ::clock_getcpuclockid(pid, &clock_);
    if (error != 0) {
        throw LoadError("CPU clock of process " + std::to_string(pid) + ": " + errnoText(error));
    }
}

Nanos ProcessCpuClock::read() {
    timespec time{};
    if (::clock_gettime(clock_, &time) != 0) {
        throw LoadError("CPU clock of process " + std::to_string(pid_) + ": " + errnoText(errno));
    }
    return time.tv_sec * kSecond + time.tv_nsec;
}

ClockConnection::ClockConnection(const Address& server, const std::string& password,
                                 std::chrono::milliseconds timeout)
    : name_("clock server " + server.host + ":" + std::to_string(server.port)),
      timeout_(timeout),
      socket_(connectTcp(server.host, server.port, timeout)) {
    if (receive(kClockMagic.size()) != kClockMagic) {
        throw LoadError(name_ + " is not a clock server, or one of another version");
    }
    sendAll(socket_, bytesOf(clockProof(password, receive(kClockNonceSize))), timeout_);
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    const auto count = loadBig<std::uint32_t>(receive(kWord).data());
    if (count > kClockMaxPids) {
        throw LoadError(name_ + " is not a clock server");
    }
    const auto pids = receive(count * kWord);
    for (std::size_t at = 0; at < pids.size(); at += kWord) {
        pids_.push_back(loadBig<std::uint32_t>(pids.data() + at));
    }
    times_.resize(count);
}

std::size_t ClockConnection::indexOf(int pid) const {
    const auto found = std::find(pids_.begin(), pids_.end(), static_cast<std::uint32_t>(pid));
    if (found == pids_.end()) {
        throw LoadError(name_ + " does not serve process " + std::to_string(pid));
    }
    return static_cast<std::size_t>(found - pids_.begin());
}

void ClockConnection::ask() {
    if (!asked_) {
        const std::array question{static_cast<std::uint8_t>(kClockQuestion)};
        sendAll(socket_, question, timeout_);
        asked_ = true;
    }
}

Nanos ClockConnection::time(std::size_t index) {
    if (asked_) {
        const auto answer = receive(times_.size() * sizeof(std::uint64_t));
        for (std::size_t i = 0; i < times_.size(); ++i) {
            times_[i] = loadBig<std::uint64_t>(answer.data() + i * sizeof(std::uint64_t));
        }
        asked_ = false;
    }
    if (times_[index] == kClockEnded) {
        throw LoadError(name_ + ": process " + std::to_string(pids_[index]) + " has ended");
    }
    return static_cast<Nanos>(times_[index]);
}

std::string ClockConnection::receive(std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t have = 0; have < size;) {
        const auto got = ::recv(socket_.fd(), text.data() + have, size - have, 0);
        if (got > 0) {
            have += static_cast<std::size_t>(got);
        } else if (got == 0) {
            throw LoadError(name_ + " closed the connection (wrong password, or a process ended)");
        } else if (errno == EAGAIN) {
            waitReady(socket_, false, timeout_);
        } else if (errno != EINTR) {
            throw LoadError(name_ + ": " + errnoText(errno));
        }
    }
    return text;
}

}  // namespace kv::load
