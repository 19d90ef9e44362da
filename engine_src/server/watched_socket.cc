#include "server/watched_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace kv::server {

namespace {

/// Of one send: head and value of as many large answers as a turn makes by far.
constexpr size_t kPieces = 32;

/// What recv() and send() say: a count, "not now", or the end.
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

std::optional<size_t> WatchedSocket::receive(uint8_t* to, size_t room) {
    const ssize_t count = ::recv(socket_.get(), to, room, 0);
    return count == 0 ? std::nullopt : transferred(count);
}

std::optional<size_t> WatchedSocket::send(const Output& output) {
    std::array<iovec, kPieces> pieces;
    const size_t count = output.gather(pieces);
    if (count == 1) [[likely]] {
        return transferred(
                ::send(socket_.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL));
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    return transferred(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
}

bool WatchedSocket::peerHasEnded() const {
    pollfd asked{socket_.get(), POLLRDHUP, 0};
    return ::poll(&asked, 1, 0) > 0;
}

void WatchedSocket::endSending() {
    ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace kv::server
