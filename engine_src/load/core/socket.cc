#include "load/core/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "load/core/load_error.h"
#include "types/parse_number.h"

namespace kv::load {

std::string errnoText(int error) {
    return std::generic_category().message(error);
}

Socket& Socket::operator=(Socket&& other) noexcept {
    if (this != &other) {
        const Socket old(std::exchange(fd_, other.release()));
        tls_ = std::move(other.tls_);
    }
    return *this;
}

Socket::~Socket() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

int Socket::release() noexcept {
    return std::exchange(fd_, -1);
}

void waitReady(const Socket& socket, bool forWriting, std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
                deadline - std::chrono::steady_clock::now());
        pollfd waiting{socket.fd(), static_cast<short>(forWriting ? POLLOUT : POLLIN), 0};
        const int ready =
                ::poll(&waiting, 1, left.count() < 0 ? 0 : static_cast<int>(left.count()));
        if (ready > 0) {
            return;
        }
        if (ready == 0) {
            throw LoadError("no answer within " + std::to_string(timeout.count()) + " ms");
        }
        if (errno != EINTR) {
            throw LoadError("poll: " + errnoText(errno));
        }
    }
}

namespace {

/// Returns a connected socket, or sets the reason for the failure.
Socket tryConnect(const addrinfo& address, std::chrono::milliseconds timeout, std::string& why) {
    Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0) {
        why = errnoText(errno);
        return {};
    }
    if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
        if (errno != EINPROGRESS) {
            why = errnoText(errno);
            return {};
        }
        try {
            waitReady(socket, true, timeout);
        } catch (const LoadError& error) {
            why = error.what();
            return {};
        }
        int failed = 0;
        socklen_t size = sizeof(failed);
        if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed != 0) {
            why = errnoText(failed != 0 ? failed : errno);
            return {};
        }
    }
    const int on = 1;
    ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
}

}  // namespace

Socket connectTcp(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
    const std::string where = host + ":" + std::to_string(port);
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (error != 0) {
        throw LoadError("cannot connect to " + where + ": " + ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
    std::string why = "no address";
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
        Socket socket = tryConnect(*each, timeout, why);
        if (socket.fd() >= 0) {
            return socket;
        }
    }
    throw LoadError("cannot connect to " + where + ": " + why);
}

Socket connectUnix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        throw LoadError("cannot connect to " + path + ": the path of a Unix socket has at most " +
                        std::to_string(sizeof(address.sun_path) - 1) + " bytes");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0 ||
        ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        throw LoadError("cannot connect to " + path + ": " + errnoText(errno));
    }
    return socket;
}

void Socket::secure(const auth::TlsContext& tls, const std::string& host,
                    std::chrono::milliseconds timeout) {
    using Handshake = auth::TlsSession::Handshake;
    try {
        tls_ = tls.connect(fd_, host);
        for (auto state = tls_.handshake(); state != Handshake::Done; state = tls_.handshake()) {
            waitReady(*this, state == Handshake::WantsOutput, timeout);
        }
    } catch (const auth::TlsError& error) {
        throw LoadError(error.what());
    }
}

std::optional<std::size_t> Socket::receive(std::uint8_t* to, std::size_t room) {
    if (tls_) [[unlikely]] {
        return tls_.receive(to, room);
    }
    const auto got = ::recv(fd_, to, room, 0);
    if (got > 0) {
        return static_cast<std::size_t>(got);
    }
    if (got == 0) {
        return std::nullopt;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return 0;
    }
    throw LoadError("connection lost: " + errnoText(errno));
}

std::size_t Socket::send(std::span<const std::uint8_t> bytes) {
    if (tls_) [[unlikely]] {
        const auto sent = tls_.send(bytes.data(), bytes.size());
        return sent ? *sent : throw LoadError("connection lost while sending");
    }
    const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
        return static_cast<std::size_t>(sent);
    }
    if (errno == EAGAIN || errno == EINTR) {
        return 0;
    }
    throw LoadError("connection lost while sending: " + errnoText(errno));
}

void sendAll(Socket& socket, std::span<const std::uint8_t> bytes,
             std::chrono::milliseconds timeout) {
    while (!bytes.empty()) {
        const auto sent = socket.send(bytes);
        bytes = bytes.subspan(sent);
        if (sent == 0) {
            waitReady(socket, true, timeout);
        }
    }
}

Socket listenOn(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (error != 0) {
        throw LoadError("cannot listen on " + host + ": " + ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
    Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
        ::listen(socket.fd(), 64) != 0) {
        throw LoadError("cannot listen on " + host + ": " + errnoText(errno));
    }
    return socket;
}

std::uint16_t portOf(const Socket& socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        throw LoadError("getsockname: " + errnoText(errno));
    }
    return ntohs(address.ss_family == AF_INET6
                         ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                         : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string peerOf(const Socket& socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    if (::getpeername(socket.fd(), generic, &size) != 0) {
        return "?";
    }
    if (address.ss_family == AF_UNIX) {
        return reinterpret_cast<const sockaddr_un&>(address).sun_path;
    }
    if (::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "?";
    }
    return std::string(host.data()) + ":" + port.data();
}

std::optional<std::uint16_t> parsePort(std::string_view text) {
    return parseNumber<std::uint16_t>(text, 1);
}

std::string_view withoutBrackets(std::string_view host) {
    return host.size() > 2 && host.front() == '[' && host.back() == ']'
                   ? host.substr(1, host.size() - 2)
                   : host;
}

std::optional<Address> parseAddress(std::string_view text) {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
        return std::nullopt;
    }
    const auto port = parsePort(text.substr(colon + 1));
    const auto given = text.substr(0, colon);
    const auto host = withoutBrackets(given);
    // Without brackets a colon is part of an IPv6 address, not the separator of the port.
    if (!port || (host == given && given.find_first_of("[]:") != std::string_view::npos)) {
        return std::nullopt;
    }
    return Address{std::string(host), *port};
}

Address parseListen(std::string_view text) {
    const auto whole = parseAddress(text);
    return whole ? *whole : Address{std::string(withoutBrackets(text)), 0};
}

}  // namespace kv::load
