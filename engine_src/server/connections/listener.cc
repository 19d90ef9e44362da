#include "server/connections/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "logging/log.h"

namespace kv::server {

namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsPerWakeup = 64;
constexpr timeval kRetryAfter{0, 100'000};

std::string why(int error) {
    return std::system_category().message(error);
}

struct FreeAddress {
    void operator()(addrinfo* info) const { freeaddrinfo(info); }
};

std::unique_ptr<addrinfo, FreeAddress> resolve(const std::string& host) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (error != 0 || found == nullptr) {
        throw ListenError("host " + host + ": " + gai_strerror(error));
    }
    return std::unique_ptr<addrinfo, FreeAddress>(found);
}

bool isLoopback(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        in_addr v4{};
        std::memcpy(&v4, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, sizeof v4);
        return (ntohl(v4.s_addr) >> 24U) == 127;
    }
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

void setPort(sockaddr* address, uint16_t port) {
    // The port is at the same offset in both families.
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
}

uint16_t boundPort(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

void setFlag(int fd, int level, int option) {
    const int on = 1;
    setsockopt(fd, level, option, &on, sizeof on);
}

}  // namespace

Listener::Listener(const std::string& host, uint16_t port) {
    const auto addresses = resolve(host);
    // "localhost" has addresses of both families; benchmark clients dial 127.0.0.1.
    const addrinfo* chosen = addresses.get();
    for (const addrinfo* at = chosen; at != nullptr; at = at->ai_next) {
        if (at->ai_family == AF_INET) {
            chosen = at;
            break;
        }
    }
    setPort(chosen->ai_addr, port);
    loopback_ = isLoopback(chosen->ai_addr);
    socket_ = Fd(::socket(chosen->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) {
        throw ListenError("socket: " + why(errno));
    }
    setFlag(socket_.get(), SOL_SOCKET, SO_REUSEADDR);
    if (::bind(socket_.get(), chosen->ai_addr, chosen->ai_addrlen) != 0) {
        throw ListenError("cannot listen on " + host + " port " + std::to_string(port) + ": " +
                          why(errno));
    }
    port_ = boundPort(socket_.get());
}

void Listener::start(event_base* base, OnSocket onSocket) {
    // Two servers may both bind with SO_REUSEADDR, but only one of them may listen.
    if (::listen(socket_.get(), kBacklog) != 0) {
        throw ListenError("cannot listen on port " + std::to_string(port_) + ": " + why(errno));
    }
    onSocket_ = std::move(onSocket);
    acceptEvent_.reset(event_new(base, socket_.get(), EV_READ | EV_PERSIST, onAcceptable, this));
    retryEvent_.reset(event_new(base, -1, 0, onRetry, this));
    if (!acceptEvent_ || !retryEvent_) {
        throw ListenError("libevent: event_new failed");
    }
    event_add(acceptEvent_.get(), nullptr);
}

void Listener::stop() {
    acceptEvent_.reset();
    retryEvent_.reset();
    socket_ = Fd();
}

void Listener::onAcceptable(int, short, void* self) {
    static_cast<Listener*>(self)->acceptSome();
}

void Listener::onRetry(int, short, void* self) {
    event_add(static_cast<Listener*>(self)->acceptEvent_.get(), nullptr);
}

void Listener::acceptSome() {
    for (int i = 0; i < kAcceptsPerWakeup; ++i) {
        Fd accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (accepted) {
            setFlag(accepted.get(), IPPROTO_TCP, TCP_NODELAY);
            setFlag(accepted.get(), SOL_SOCKET, SO_KEEPALIVE);
            try {
                onSocket_(std::move(accepted));
            } catch (const std::exception& error) {
                // libevent calls this function, and no exception may pass through it. The client is
                // gone.
                log::warn("a connection was closed at once: {}", error.what());
            }
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            // The waiting client keeps the socket readable: without a pause this would spin.
            log::warn("accept: {}; trying again in 100 ms", why(errno));
            event_del(acceptEvent_.get());
            event_add(retryEvent_.get(), &kRetryAfter);
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

}  // namespace kv::server
