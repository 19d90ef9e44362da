#include "load/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace kv::load {

Channel::Channel(Socket socket, std::size_t index)
    : socket_(std::move(socket)),
      index_(index),
      peer_(peerOf(socket_)),
      send_(std::size_t{64} * 1024),
      receive_(kReceiveSize) {}

std::uint8_t* Channel::reserve(std::size_t size) {
    if (sendEnd_ + size > send_.size()) {
        if (sendBegin_ != 0) {
            std::memmove(send_.data(), send_.data() + sendBegin_, unsent());
            sendEnd_ -= sendBegin_;
            sendBegin_ = 0;
        }
        if (sendEnd_ + size > send_.size()) {
            send_.resize(std::max(sendEnd_ + size, 2 * send_.size()));
        }
    }
    return send_.data() + sendEnd_;
}

bool Channel::flush() {
    while (sendBegin_ != sendEnd_) {
        const auto sent = ::send(socket_.fd(), send_.data() + sendBegin_, unsent(), MSG_NOSIGNAL);
        if (sent >= 0) {
            sendBegin_ += static_cast<std::size_t>(sent);
        } else if (errno == EAGAIN) {
            return false;
        } else if (errno != EINTR) {
            throw LoadError("connection to " + peer_ + " lost while sending: " + errnoText(errno));
        }
    }
    sendBegin_ = sendEnd_ = 0;
    return true;
}

bool Channel::receive() {
    const auto got =
            ::recv(socket_.fd(), receive_.data() + received_, receive_.size() - received_, 0);
    if (got > 0) {
        received_ += static_cast<std::size_t>(got);
        return true;
    }
    if (got == 0) {
        throw LoadError("connection closed by the server " + peer_);
    }
    if (errno == EAGAIN || errno == EINTR) {
        return false;
    }
    throw LoadError("connection to " + peer_ + " lost: " + errnoText(errno));
}

void Channel::badAnswer() const {
    throw LoadError("the server sent bytes that are no answer of the memcached binary protocol");
}

}  // namespace kv::load
