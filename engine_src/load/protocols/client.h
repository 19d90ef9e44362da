#pragma once

// Client: sends one request at a time, for session set-up and for kvctl; not for load. Ownership:
// owns its socket. Threads: one at a time. Errors: every failure is a LoadError that names the
// server.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "load/core/socket.h"
#include "protocol/frame.h"

namespace kv::load {

/// A complete answer, copied out of the connection's buffer.
struct Answer {
    protocol::Status status = protocol::Status::kSuccess;
    std::string extras;
    std::string key;
    std::string value;
};

class Client {
  public:
    /// `timeout` bounds each wait for the peer.
    explicit Client(Socket socket, std::chrono::milliseconds timeout);

    /// Sends a request and waits for the answer with the same opcode and opaque.
    Answer ask(protocol::FrameSpec spec);
    /// Returns all figures of one STAT group ("" = the default one).
    std::map<std::string, std::string> stat(std::string_view group);

    /// Address and port of the server, as text.
    const std::string& peer() const noexcept { return peer_; }

    /// Returns the socket, for the load loop. The client is empty afterwards.
    Socket takeSocket() { return std::move(socket_); }

  private:
    Answer readAnswer(protocol::Opcode opcode, std::uint32_t opaque);

    Socket socket_;
    std::string peer_;
    std::chrono::milliseconds timeout_;
    std::vector<std::uint8_t> buffer_;
    std::uint32_t opaque_ = 0;
};

}  // namespace kv::load
