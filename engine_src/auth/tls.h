// TLS over a socket (OpenSSL): the server's and the client's side.
//
// Threads and ownership: a TlsContext holds certificates and keys; it is immutable, may be used by
// any thread, and outlives its sessions. A TlsSession belongs to one connection and one thread; the
// owner of the socket keeps it and waits for it. TLS 1.2 and 1.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace kv::auth {

/// A file cannot be used; the text names the file and the cause.
class TlsError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class TlsSession {
  public:
    TlsSession() = default;  ///< none: plain TCP

    /// A client needs no key update before 2^24 records (RFC 8446, section 5.5).
    static constexpr unsigned kMostKeyUpdates = 32;
    /// What the other side did, besides sending data.
    struct Peer {
        bool renegotiates = false;
        unsigned keyUpdates = 0;  ///< since the last data
    };

    [[nodiscard]] explicit operator bool() const { return ssl_ != nullptr; }

    enum class Handshake { Done, WantsInput, WantsOutput };
    /// Performs a step of the handshake; repeat it when the socket has or takes bytes. Throws
    /// TlsError with the reason if the handshake failed.
    Handshake handshake();

    /// Returns the number of bytes received: 0 if there are none now, nothing at the end of the
    /// stream, on an error, if a client begins another handshake, or after kMostKeyUpdates key
    /// updates without data between them. Like send(), it performs the handshake as needed.
    std::optional<size_t> receive(uint8_t* to, size_t room);
    /// Returns the number of bytes taken. After 0 the same bytes have to be sent again; nothing on
    /// an error.
    std::optional<size_t> send(const void* data, size_t size);
    /// True if received bytes wait here, for which the socket will not become readable.
    [[nodiscard]] bool hasPending() const;
    /// Notifies the peer that nothing more will be sent.
    void end();

  private:
    friend class TlsContext;
    struct Free {
        void operator()(ssl_st* ssl) const;
    };
    explicit TlsSession(ssl_st* ssl) : peer_(std::make_unique<Peer>()), ssl_(ssl) {}
    std::optional<size_t> transferred(int count);

    std::unique_ptr<Peer> peer_;  // ssl_ points to it
    std::unique_ptr<ssl_st, Free> ssl_;
};

class TlsContext {
  public:
    /// Takes a chain of certificates and the key of the first one, in PEM files. Only its owner may
    /// have access to the key, but the group may read one that belongs to root. With `clientCa`,
    /// only clients with a certificate of that authority are served. Throws TlsError.
    static TlsContext server(const std::filesystem::path& cert, const std::filesystem::path& key,
                             const std::filesystem::path& clientCa = {});
    /// Trusts servers with a certificate of `ca`, a PEM file. With `cert` and `key` it presents a
    /// certificate to them. Throws TlsError.
    static TlsContext client(const std::filesystem::path& ca,
                             const std::filesystem::path& cert = {},
                             const std::filesystem::path& key = {});

    /// Throws std::bad_alloc.
    [[nodiscard]] TlsSession accept(int socket) const;
    /// Connects to a server whose certificate names `host`.
    [[nodiscard]] TlsSession connect(int socket, const std::string& host) const;

  private:
    TlsContext();
    void load(const std::filesystem::path& cert, const std::filesystem::path& key);
    [[nodiscard]] TlsSession session(int socket) const;

    std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace kv::auth
