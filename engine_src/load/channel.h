#pragma once

// A connection under load: what is to be sent, and the answers as they arrive.
//
// Owned and used by one thread. Requests are written straight into the send buffer and leave with
// one send() per flush. Answers are read in bulk and handed over header by header: a body is looked
// at by nobody, so one larger than the buffer is skipped, never stored. Nothing allocates once the
// buffers have their size.

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "load/load_error.h"
#include "load/socket.h"
#include "protocol/frame.h"

namespace kv::load {

class Channel {
  public:
    static constexpr std::size_t kReceiveSize = std::size_t{128} * 1024;

    Channel(Socket socket, std::size_t index);

    std::size_t index() const noexcept { return index_; }
    int fd() const noexcept { return socket_.fd(); }
    /// The server's address and port.
    const std::string& peer() const noexcept { return peer_; }
    /// Requests committed whose answers have not been handed over.
    std::uint64_t unanswered() const noexcept { return requests_ - answers_; }

    // --- sending ---
    std::size_t unsent() const noexcept { return sendEnd_ - sendBegin_; }
    /// Room for `size` more bytes; valid until the next call. commit() says how many a request
    /// took.
    std::uint8_t* reserve(std::size_t size);
    void commit(std::size_t size) noexcept {
        sendEnd_ += size;
        ++requests_;
    }
    /// Sends what the kernel takes. True when nothing is left; otherwise call again when the socket
    /// is writable. Throws LoadError when the connection is lost.
    bool flush();

    // --- receiving ---
    /// One recv(). False when there was nothing. Throws LoadError when the connection is lost.
    bool receive();
    /// Calls onAnswer(const protocol::Header&) for each answer that has arrived whole, or
    /// onAnswer(const protocol::Header&, protocol::Bytes body) where it takes the body too: empty
    /// of one larger than the buffer. Throws LoadError on bytes that are no answers.
    template <class OnAnswer>
    void drain(OnAnswer&& onAnswer);

  private:
    template <class OnAnswer>
    void hand(OnAnswer& onAnswer, const protocol::Header& header, protocol::Bytes body) {
        ++answers_;
        if constexpr (std::is_invocable_v<OnAnswer&, const protocol::Header&, protocol::Bytes>) {
            onAnswer(header, body);
        } else {
            onAnswer(header);
        }
    }
    [[noreturn]] void badAnswer() const;

    Socket socket_;
    std::size_t index_;
    std::string peer_;
    std::uint64_t requests_ = 0;
    std::uint64_t answers_ = 0;
    std::vector<std::uint8_t> send_;
    std::size_t sendBegin_ = 0;
    std::size_t sendEnd_ = 0;
    std::vector<std::uint8_t> receive_;
    std::size_t received_ = 0;  // bytes at the front of receive_
    std::size_t skip_ = 0;      // bytes of the body of held_ still to come
    protocol::Header held_;     // the answer whose body is being skipped
};

template <class OnAnswer>
void Channel::drain(OnAnswer&& onAnswer) {
    const std::uint8_t* at = receive_.data();
    const std::uint8_t* const end = at + received_;
    if (skip_ != 0) {
        const auto here = std::min(skip_, received_);
        at += here;
        skip_ -= here;
        if (skip_ == 0) {
            hand(onAnswer, held_, {});
        }
    }
    while (static_cast<std::size_t>(end - at) >= protocol::kHeaderSize) {
        const auto header = protocol::decodeHeader(at);
        if (header.magic != protocol::Magic::kClientResponse) {
            if (header.magic != protocol::Magic::kAltClientResponse &&
                header.magic != protocol::Magic::kServerRequest) {
                badAnswer();
            }
        }
        const auto have = static_cast<std::size_t>(end - at);
        const auto size = header.frameSize();
        if (size > have) {
            if (size <= receive_.size()) {
                break;  // the rest comes with the next read
            }
            held_ = header;
            skip_ = size - have;
            at = end;
            break;
        }
        at += size;
        if (header.magic != protocol::Magic::kServerRequest) {  // news of the map: nobody asked
            hand(onAnswer, header, {at - header.bodyLength, header.bodyLength});
        }
    }
    received_ = static_cast<std::size_t>(end - at);
    if (received_ != 0) {
        std::memmove(receive_.data(), at, received_);
    }
}

}  // namespace kv::load
