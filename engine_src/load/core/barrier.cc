#include "load/core/barrier.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <vector>

#include "load/core/load_error.h"

namespace kv::load {

namespace {

constexpr int kStopCheckMillis = 100;

struct Party {
    Socket socket;
    bool arrived = false;
};

/// Handles input of a party. Returns false if it is gone.
bool readFrom(Party& party) {
    std::array<char, 16> input{};
    const auto got = ::recv(party.socket.fd(), input.data(), input.size(), MSG_DONTWAIT);
    party.arrived = party.arrived || got > 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

BarrierServer::BarrierServer(const Address& listen, std::size_t parties)
    : listener_(listenOn(listen.host, listen.port)), port_(portOf(listener_)), parties_(parties) {}

void BarrierServer::run(const Socket& stop) {
    std::vector<Party> here;
    for (;;) {
        std::vector<pollfd> waited{{stop.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
        for (const auto& party : here) {
            waited.push_back({party.socket.fd(), POLLIN, 0});
        }
        if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) {
            throw LoadError("poll: " + errnoText(errno));
        }
        if (waited[0].revents != 0) {
            return;
        }
        std::vector<Party> left;
        for (std::size_t i = 0; i < here.size(); ++i) {
            if (waited[i + 2].revents == 0 || readFrom(here[i])) {
                left.push_back(std::move(here[i]));
            }
        }
        here = std::move(left);
        if (waited[1].revents != 0) {
            Socket socket(
                    ::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
            if (socket.fd() >= 0) {
                here.push_back({std::move(socket)});
            }
        }
        std::size_t arrived = 0;
        for (const auto& party : here) {
            arrived += party.arrived ? 1U : 0U;
        }
        if (arrived >= parties_) {
            for (const auto& party : here) {
                ::send(party.socket.fd(), "g", 1, MSG_NOSIGNAL);
            }
            return;
        }
    }
}

void waitAtBarrier(const Address& barrier, std::chrono::milliseconds connectTimeout,
                   const std::atomic<bool>& stop) {
    Socket socket = connectTcp(barrier.host, barrier.port, connectTimeout);
    sendAll(socket, std::array<std::uint8_t, 1>{'r'}, connectTimeout);
    while (!stop.load(std::memory_order_relaxed)) {
        pollfd waited{socket.fd(), POLLIN, 0};
        const int ready = ::poll(&waited, 1, kStopCheckMillis);
        if (ready < 0 && errno != EINTR) {
            throw LoadError("poll: " + errnoText(errno));
        }
        if (ready > 0) {
            char go = 0;
            if (::recv(socket.fd(), &go, 1, 0) != 1) {
                throw LoadError("the barrier went away before all were ready");
            }
            return;
        }
    }
}

}  // namespace kv::load
