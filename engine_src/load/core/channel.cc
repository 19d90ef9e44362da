#include "load/core/channel.h"

#include <algorithm>

#include "load/core/load_error.h"

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
        const auto sent = about(peer_, [this] {
            return socket_.send({send_.data() + sendBegin_, unsent()});
        });
        if (sent == 0) {
            return false;
        }
        sendBegin_ += sent;
    }
    sendBegin_ = sendEnd_ = 0;
    return true;
}

bool Channel::receive() {
    const auto got = about(peer_, [this] {
        return socket_.receive(receive_.data() + received_, receive_.size() - received_);
    });
    if (!got) {
        throw LoadError("connection closed by the server " + peer_);
    }
    received_ += *got;
    return *got != 0;
}

}  // namespace kv::load
