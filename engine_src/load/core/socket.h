#pragma once

// A TCP or Unix socket that closes itself, with TLS if requested. Movable, not copyable. Threads:
// one at a time.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "auth/tls.h"

namespace kv::load {

class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) noexcept : fd_(fd) {}
    Socket(Socket&& other) noexcept : tls_(std::move(other.tls_)), fd_(other.release()) {}
    Socket& operator=(Socket&& other) noexcept;
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    ~Socket();

    int fd() const noexcept { return fd_; }
    int release() noexcept;

    /// Performs the TLS handshake with a server whose certificate names `host`; everything after it
    /// is encrypted. Throws LoadError.
    void secure(const auth::TlsContext& tls, const std::string& host,
                std::chrono::milliseconds timeout);

    /// Returns the number of bytes received: 0 if there are none now, nothing at the end of the
    /// stream. Throws LoadError if the connection is lost.
    std::optional<std::size_t> receive(std::uint8_t* to, std::size_t room);
    /// Returns the number of bytes taken, possibly 0. Throws LoadError if the connection is lost.
    std::size_t send(std::span<const std::uint8_t> bytes);
    /// True if received bytes wait here, for which the socket will not become readable.
    bool hasPending() const { return tls_ && tls_.hasPending(); }

  private:
    auth::TlsSession tls_;
    int fd_ = -1;
};

/// Returns a non-blocking socket with TCP_NODELAY, connected to host:port (name or numeric
/// address). Throws LoadError if no address answers within `timeout`.
Socket connectTcp(const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);

/// Returns a non-blocking socket that is connected to the path of a Unix socket. Throws LoadError.
Socket connectUnix(const std::string& path);

/// Waits until the socket is readable (or writable). Throws LoadError after `timeout`.
void waitReady(const Socket& socket, bool forWriting, std::chrono::milliseconds timeout);

/// Writes everything and waits where necessary. Throws LoadError.
void sendAll(Socket& socket, std::span<const std::uint8_t> bytes,
             std::chrono::milliseconds timeout);

/// Returns a non-blocking socket that listens on a host's name or address; port 0: any. Throws
/// LoadError.
Socket listenOn(const std::string& host, std::uint16_t port);
/// Returns the port that a socket is bound to.
std::uint16_t portOf(const Socket& socket);
/// Returns address and port of the other end, or the path of a Unix socket, as text; "?" if the
/// connection is already lost.
std::string peerOf(const Socket& socket);

struct Address {
    std::string host;
    std::uint16_t port = 0;
};

/// Parses "HOST:PORT", with an IPv6 address in brackets. Returns nothing if it is not that.
std::optional<Address> parseAddress(std::string_view text);
/// Parses "ADDR[:PORT]" to listen on; port 0 if none is given.
Address parseListen(std::string_view text);
/// Parses a port number other than 0.
std::optional<std::uint16_t> parsePort(std::string_view text);
/// Returns a host's name or address without the brackets of an IPv6 address: "[::1]" -> "::1".
std::string_view withoutBrackets(std::string_view host);

/// errno as text.
std::string errnoText(int error);

}  // namespace kv::load
