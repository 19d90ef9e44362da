#include "load/remote_cpu_clock.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "load/clock_protocol.h"
#include "load/load_error.h"
#include "types/endian.h"

namespace kv::load {

namespace {

std::span<const std::uint8_t> bytesOf(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

RemoteCpuClock::RemoteCpuClock(const Address& server, const std::string& password, int pid,
                               std::chrono::milliseconds timeout)
    : name_("clock server " + server.host + ":" + std::to_string(server.port)),
      timeout_(timeout),
      socket_(connectTcp(server.host, server.port, timeout)) {
    if (hear(kClockMagic.size()) != kClockMagic) {
        throw LoadError(name_ + " is something else");
    }
    sendAll(socket_, bytesOf(clockProof(password, hear(kClockNonceSize))), timeout_);
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    const auto count = loadBig<std::uint32_t>(hear(kWord).data());
    if (count > kClockMaxPids) {
        throw LoadError(name_ + " is something else");
    }
    const auto pids = hear(count * kWord);
    while (index_ < count && loadBig<std::uint32_t>(pids.data() + index_ * kWord) !=
                                     static_cast<std::uint32_t>(pid)) {
        ++index_;
    }
    if (index_ == count) {
        throw LoadError(name_ + " does not serve process " + std::to_string(pid));
    }
}

Nanos RemoteCpuClock::read() {
    std::array<std::uint8_t, sizeof(std::uint32_t)> question{};
    storeBig(question.data(), index_);
    sendAll(socket_, question, timeout_);
    return static_cast<Nanos>(loadBig<std::uint64_t>(hear(sizeof(std::uint64_t)).data()));
}

std::string RemoteCpuClock::hear(std::size_t size) {
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
