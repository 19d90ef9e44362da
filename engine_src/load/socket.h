#pragma once

// A TCP socket that closes itself. Moved, never copied; used by one thread at a time.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace kv::load {

class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) noexcept : fd_(fd) {}
    Socket(Socket&& other) noexcept : fd_(other.release()) {}
    Socket& operator=(Socket&& other) noexcept;
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    ~Socket();

    int fd() const noexcept { return fd_; }
    int release() noexcept;

  private:
    int fd_ = -1;
};

/// A non-blocking socket with TCP_NODELAY, connected to host:port (name or numeric address).
/// Throws LoadError when no address answers within `timeout`.
Socket connectTcp(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);

/// Waits until the socket is readable (or writable). Throws LoadError after `timeout`.
void waitReady(const Socket& socket, bool forWriting, std::chrono::milliseconds timeout);

/// Writes everything, waiting where needed. Throws LoadError.
void sendAll(const Socket& socket, std::span<const std::uint8_t> bytes,
             std::chrono::milliseconds timeout);

/// A non-blocking socket that listens on a host's name or address; port 0: any. Throws LoadError.
Socket listenOn(const std::string& host, std::uint16_t port);
/// The port that a socket is bound to.
std::uint16_t portOf(const Socket& socket);
/// Address and port at the other end, as text; "?" of a connection that is lost already.
std::string peerOf(const Socket& socket);

/// errno as text.
std::string errnoText(int error);

}  // namespace kv::load
