#include "server/connections/watched_socket.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

namespace kv::server {

namespace {

/// Pieces of one send: head and value of far more large answers than a turn produces.
constexpr size_t kPieces = 32;
/// Bytes of one send: a large buffer of the socket would take several MiB of one value at once.
constexpr size_t kSentAtOnce = 1 << 20;
/// The same if values of more than kSentAtOnce wait: other connections would wait for each step.
constexpr size_t kSentOfMany = 256 << 10;

/// Leaves out what is beyond `left` bytes; returns the number of pieces.
size_t shortened(std::span<iovec> pieces, size_t left) {
    size_t count = 0;
    while (count != pieces.size() && left != 0) {
        iovec& piece = pieces[count++];
        piece.iov_len = std::min(piece.iov_len, left);
        left -= piece.iov_len;
    }
    return count;
}

/// Converts the result of recv() or send(): a count, "not now" as 0, or nothing for the end.
std::optional<size_t> transferred(ssize_t count) {
    if (count >= 0) {
        return static_cast<size_t>(count);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
        return 0;
    }
    return std::nullopt;
}

}  // namespace

EventPtr makeEvent(event_base* base, int fd, short what, event_callback_fn callback, void* self) {
    EventPtr made(event_new(base, fd, what, callback, self));
    if (!made) {
        throw std::runtime_error("libevent: event_new failed");
    }
    return made;
}

WatchedSocket::WatchedSocket(event_base* base, Fd socket, event_callback_fn onReadable,
                             event_callback_fn onWritable, void* self)
    : socket_(std::move(socket)),
      readEvent_(makeEvent(base, socket_.get(), EV_READ | EV_PERSIST, onReadable, self)),
      writeEvent_(makeEvent(base, socket_.get(), EV_WRITE | EV_PERSIST, onWritable, self)) {}

std::shared_ptr<Handshake> WatchedSocket::beginStep(std::shared_ptr<Waker> waker) {
    return std::make_shared<Handshake>(std::move(socket_), std::move(tls_), std::move(waker));
}

std::optional<Handshake::Progress> WatchedSocket::endStep(Handshake& step) {
    socket_ = step.takeSocket();
    tls_ = step.takeSession();
    inHandshake_ = step.progress() != Handshake::Progress::Done;
    return step.progress();
}

void WatchedSocket::watch(const EventPtr& event, bool& state, bool on) {
    if (on == state) {
        return;
    }
    state = on;
    if (on) {
        event_add(event.get(), nullptr);
    } else {
        event_del(event.get());
    }
}

void WatchedSocket::readPending() {
    if (tls_ && readable_ && tls_.hasPending()) [[unlikely]] {
        event_active(readEvent_.get(), EV_READ, 0);
    }
}

std::optional<size_t> WatchedSocket::receive(uint8_t* to, size_t room) {
    if (tls_) [[unlikely]] {
        const auto received = tls_.receive(to, room);
        readPending();
        return received;
    }
    const ssize_t count = ::recv(socket_.get(), to, room, 0);
    return count == 0 ? std::nullopt : transferred(count);
}

std::optional<size_t> WatchedSocket::sendByTls(std::span<const iovec> pieces) {
    size_t total = 0;
    for (const iovec& piece : pieces) {
        for (size_t at = 0; at < piece.iov_len;) {
            const auto sent =
                    tls_.send(static_cast<const char*>(piece.iov_base) + at, piece.iov_len - at);
            if (!sent || *sent == 0) {
                return total != 0 ? std::optional(total) : sent;
            }
            at += *sent;
            total += *sent;
        }
    }
    return total;
}

std::optional<size_t> WatchedSocket::send(const Output& output) {
    std::array<iovec, kPieces> pieces;
    const size_t count = shortened({pieces.data(), output.gather(pieces)},
                                   output.pinned() > kSentAtOnce ? kSentOfMany : kSentAtOnce);
    if (tls_) [[unlikely]] {
        return sendByTls({pieces.data(), count});
    }
    if (count == 1) [[likely]] {
        return transferred(
                ::send(socket_.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL));
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    return transferred(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
}

PeerAddress WatchedSocket::peer() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        return {};  // the client is gone already
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
        inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
        const bool loopback = (ntohl(v4.sin_addr.s_addr) >> 24U) == IN_LOOPBACKNET;
        return {text.data(), loopback || bool(tls_)};
    }
    auto v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        inet_ntop(AF_INET, &v6.s6_addr[12], text.data(), text.size());
        return {text.data(), v6.s6_addr[12] == IN_LOOPBACKNET || bool(tls_)};
    }
    const bool loopback = IN6_IS_ADDR_LOOPBACK(&v6);
    std::fill(std::begin(v6.s6_addr) + 8, std::end(v6.s6_addr), uint8_t{0});
    inet_ntop(AF_INET6, &v6, text.data(), text.size());
    return {text.data(), loopback || bool(tls_)};
}

bool WatchedSocket::peerHasEnded() const {
    pollfd asked{socket_.get(), POLLRDHUP, 0};
    return ::poll(&asked, 1, 0) > 0;
}

void WatchedSocket::endSending() {
    if (tls_) {
        tls_.end();
    }
    ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace kv::server
