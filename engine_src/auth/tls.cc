#include "auth/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <climits>
#include <new>

namespace kv::auth {

namespace {

std::string lastError() {
    std::array<char, 256> text{};
    ERR_error_string_n(ERR_get_error(), text.data(), text.size());
    ERR_clear_error();
    return text.data();
}

void check(int result, const std::string& what) {
    if (result != 1) {
        throw TlsError("TLS: " + what + ": " + lastError());
    }
}

/// OpenSSL refuses another handshake with a warning, but keeps its message, which may have 128 KiB.
void noteRenegotiation(const SSL* ssl, int where, int /*result*/) {
    if ((where & SSL_CB_HANDSHAKE_START) != 0 && SSL_get_peer_finished(ssl, nullptr, 0) != 0) {
        static_cast<TlsSession::Peer*>(SSL_get_app_data(ssl))->renegotiates = true;
    }
}

/// Counts key updates: OpenSSL has limits for empty records and warnings, but none for these.
void noteMessage(int isSent, int /*version*/, int type, const void* message, size_t size, SSL* ssl,
                 void* /*argument*/) {
    if (isSent == 0 && type == SSL3_RT_HANDSHAKE && size > 0 &&
        *static_cast<const uint8_t*>(message) == SSL3_MT_KEY_UPDATE) {
        ++static_cast<TlsSession::Peer*>(SSL_get_app_data(ssl))->keyUpdates;
    }
}

/// As libpq: a key is its owner's, but the group may read one that belongs to root.
void checkAccess(const std::filesystem::path& key) {
    struct stat info {};
    if (::stat(key.c_str(), &info) != 0) {
        return;  // OpenSSL reports why
    }
    const mode_t refused = info.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
    if ((info.st_mode & refused) != 0) {
        throw TlsError("TLS: the private key " + key.string() +
                       " is accessible to its group or others; chmod 600 it (or 640 if root owns "
                       "it)");
    }
}

int sizeOf(size_t size) {
    return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

void TlsSession::Free::operator()(ssl_st* ssl) const {
    SSL_free(ssl);
}

std::optional<size_t> TlsSession::transferred(int count) {
    if (count > 0) {
        return static_cast<size_t>(count);
    }
    const int why = SSL_get_error(ssl_.get(), count);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        return 0;
    }
    return std::nullopt;
}

TlsSession::Handshake TlsSession::handshake() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) {
        return Handshake::Done;
    }
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ:
            return Handshake::WantsInput;
        case SSL_ERROR_WANT_WRITE:
            return Handshake::WantsOutput;
        default:
            break;
    }
    if (const long verdict = SSL_get_verify_result(ssl_.get()); verdict != X509_V_OK) {
        throw TlsError(std::string("TLS: the peer's certificate is refused: ") +
                       X509_verify_cert_error_string(verdict));
    }
    throw TlsError(ERR_peek_error() != 0 ? "TLS: " + lastError()
                                         : "TLS: the peer closed the connection");
}

std::optional<size_t> TlsSession::receive(uint8_t* to, size_t room) {
    ERR_clear_error();
    const int count = SSL_read(ssl_.get(), to, sizeOf(room));
    if (peer_->renegotiates || peer_->keyUpdates > kMostKeyUpdates) {
        return std::nullopt;
    }
    if (count > 0) {
        peer_->keyUpdates = 0;
    }
    return transferred(count);
}

std::optional<size_t> TlsSession::send(const void* data, size_t size) {
    ERR_clear_error();
    return transferred(SSL_write(ssl_.get(), data, sizeOf(size)));
}

bool TlsSession::hasPending() const {
    return SSL_pending(ssl_.get()) > 0;
}

void TlsSession::end() {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());  // the connection ends anyway
    ERR_clear_error();
}

TlsContext::TlsContext() : context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    if (context_ == nullptr) {
        throw std::bad_alloc();
    }
    check(static_cast<int>(SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION)),
          "version");
    // Partial writes may be repeated from another address, because buffers move as they grow.
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                             SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                             SSL_MODE_RELEASE_BUFFERS);
    // Otherwise one SSL_read() processes key updates for as long as the peer sends them.
    SSL_CTX_clear_mode(context_.get(), SSL_MODE_AUTO_RETRY);
}

void TlsContext::load(const std::filesystem::path& cert, const std::filesystem::path& key) {
    checkAccess(key);
    SSL_CTX* const context = context_.get();
    check(SSL_CTX_use_certificate_chain_file(context, cert.c_str()), cert.string());
    check(SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM), key.string());
    check(SSL_CTX_check_private_key(context), key.string() + " does not fit " + cert.string());
}

TlsContext TlsContext::server(const std::filesystem::path& cert, const std::filesystem::path& key,
                              const std::filesystem::path& clientCa) {
    TlsContext made;
    made.load(cert, key);
    SSL_CTX* const context = made.context_.get();
    if (!clientCa.empty()) {
        check(SSL_CTX_load_verify_locations(context, clientCa.c_str(), nullptr), clientCa.string());
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    // Sessions are not resumed: connections are few and live long.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    SSL_CTX_set_info_callback(context, noteRenegotiation);
    SSL_CTX_set_msg_callback(context, noteMessage);
    return made;
}

TlsContext TlsContext::client(const std::filesystem::path& ca, const std::filesystem::path& cert,
                              const std::filesystem::path& key) {
    TlsContext made;
    if (!cert.empty()) {
        made.load(cert, key);
    }
    check(SSL_CTX_load_verify_locations(made.context_.get(), ca.c_str(), nullptr), ca.string());
    SSL_CTX_set_verify(made.context_.get(), SSL_VERIFY_PEER, nullptr);
    return made;
}

TlsSession TlsContext::session(int socket) const {
    TlsSession made(SSL_new(context_.get()));
    if (!made || SSL_set_fd(made.ssl_.get(), socket) != 1) {
        throw std::bad_alloc();
    }
    SSL_set_app_data(made.ssl_.get(), made.peer_.get());
    return made;
}

TlsSession TlsContext::accept(int socket) const {
    TlsSession made = session(socket);
    SSL_set_accept_state(made.ssl_.get());
    return made;
}

TlsSession TlsContext::connect(int socket, const std::string& host) const {
    TlsSession made = session(socket);
    SSL* const ssl = made.ssl_.get();
    SSL_set_connect_state(ssl);
    in6_addr address{};
    if (inet_pton(AF_INET, host.c_str(), &address) == 1 ||
        inet_pton(AF_INET6, host.c_str(), &address) == 1) {
        check(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()), host);
    } else {
        check(SSL_set1_host(ssl, host.c_str()), host);
        SSL_set_tlsext_host_name(ssl, host.c_str());
    }
    return made;
}

}  // namespace kv::auth
