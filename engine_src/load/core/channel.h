#pragma once

// Channel: a connection under load: the requests to be sent, and the answers as they arrive.
//
// Ownership and threads: owned and used by one thread. Requests are written straight into the send
// buffer and leave with one send() per flush. Answers are read in bulk; the reader of a protocol
// (protocols/) takes complete answers off the front of the receive buffer. Nothing allocates once
// the buffers have reached their size.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "load/core/socket.h"

namespace kv::load {

class Channel {
  public:
    static constexpr std::size_t kReceiveSize = std::size_t{128} * 1024;

    Channel(Socket socket, std::size_t index);

    std::size_t index() const noexcept { return index_; }
    int fd() const noexcept { return socket_.fd(); }
    /// The server's address and port.
    const std::string& peer() const noexcept { return peer_; }
    /// Requests that were committed and not reported as answered().
    std::uint64_t unanswered() const noexcept { return requests_ - answers_; }

    // --- sending ---
    std::size_t unsent() const noexcept { return sendEnd_ - sendBegin_; }
    /// Returns room for `size` more bytes, valid until the next call. commit() reports how many
    /// bytes were written and how many requests they contain.
    std::uint8_t* reserve(std::size_t size);
    void commit(std::size_t size, std::uint64_t requests = 1) noexcept {
        sendEnd_ += size;
        requests_ += requests;
    }
    /// Sends what the kernel takes. Returns true if nothing is left; otherwise call again when the
    /// socket is writable. Throws LoadError if the connection is lost.
    bool flush();

    // --- receiving ---
    /// Calls recv() once. Returns false if there was nothing. Throws LoadError if the connection is
    /// lost.
    bool receive();
    /// True if more has arrived for which the socket will not become readable: receive() again.
    bool hasPending() const { return socket_.hasPending(); }
    /// Passes the received bytes to `reader.take(bytes, capacity, onAnswer)`, which calls onAnswer
    /// for each complete answer and returns the number of bytes that it has consumed. `capacity` is
    /// the largest number of bytes that can be there at a time: a larger answer must be taken in
    /// parts.
    template <class Reader, class OnAnswer>
    void drain(Reader& reader, OnAnswer&& onAnswer) {
        const std::size_t used =
                reader.take(std::span<const std::uint8_t>(receive_.data(), received_),
                            receive_.size(), onAnswer);
        received_ -= used;
        if (received_ != 0 && used != 0) {
            std::memmove(receive_.data(), receive_.data() + used, received_);
        }
    }
    void answered(std::uint64_t requests) noexcept { answers_ += requests; }

  private:
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
};

}  // namespace kv::load
