// What a client may send after the handshake: messages of TLS that cost the server time and memory.
#include "auth/tls.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <string>

#include "types/fd.h"

namespace kv::auth {
namespace {

template <class T, void (*kFree)(T*)>
struct Freed {
    void operator()(T* object) const { kFree(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX, SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Freed<SSL, SSL_free>>;
struct CloseFile {
    void operator()(FILE* file) const { (void)std::fclose(file); }
};

/// A client whose bytes the test passes on, or does not.
class Client {
  public:
    /// Its first messages have more than `padding` bytes.
    explicit Client(int version, size_t padding = 0)
        : context_(SSL_CTX_new(TLS_client_method())), padding_(padding, '\0') {
        constexpr unsigned kUnknown = 1000;
        SSL_CTX_add_custom_ext(context_.get(), kUnknown, SSL_EXT_CLIENT_HELLO, addPadding, nullptr,
                               &padding_, nullptr, nullptr);
        SSL_CTX_set_max_proto_version(context_.get(), version);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_connect_state(ssl_.get());
    }
    SSL* ssl() { return ssl_.get(); }
    /// Returns what it has to send.
    std::string take() {
        std::string bytes(BIO_ctrl_pending(SSL_get_wbio(ssl())), '\0');
        BIO_read(SSL_get_wbio(ssl()), bytes.data(), static_cast<int>(bytes.size()));
        return bytes;
    }
    void give(const std::string& bytes) {
        BIO_write(SSL_get_rbio(ssl()), bytes.data(), static_cast<int>(bytes.size()));
    }

  private:
    static int addPadding(SSL*, unsigned, unsigned, const unsigned char** out, size_t* size, X509*,
                          size_t, int*, void* padding) {
        const auto& bytes = *static_cast<const std::string*>(padding);
        *out = reinterpret_cast<const unsigned char*>(bytes.data());
        *size = bytes.size();
        return 1;
    }

    Context context_;
    std::string padding_;
    Ssl ssl_;
};

class TlsTest : public testing::Test {
  protected:
    TlsTest() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
        near_ = Fd(ends[0]);
        far_ = Fd(ends[1]);
        writeFiles();
        context_.emplace(TlsContext::server(certFile_, keyFile_));
        server_ = context_->accept(near_.get());
    }

    void shakeHands(Client& client) {
        for (int step = 0; step < 10 && SSL_do_handshake(client.ssl()) != 1; ++step) {
            send(client.take());
            (void)server_.handshake();
            std::array<char, 16384> answer{};
            const ssize_t size = ::recv(far_.get(), answer.data(), answer.size(), 0);
            if (size > 0) {
                client.give({answer.data(), static_cast<size_t>(size)});
            }
        }
        send(client.take());
        ASSERT_EQ(server_.handshake(), TlsSession::Handshake::Done);
    }
    void send(const std::string& bytes) {
        ASSERT_EQ(::send(far_.get(), bytes.data(), bytes.size(), 0),
                  static_cast<ssize_t>(bytes.size()));
    }
    std::optional<size_t> receive() {
        std::array<uint8_t, 16384> read{};
        return server_.receive(read.data(), read.size());
    }
    /// Receives until data or the end has come.
    std::optional<size_t> receiveData() {
        std::optional<size_t> came = 0;
        for (int i = 0; came == 0U && i < 200; ++i) {
            came = receive();
        }
        return came;
    }
    static std::string keyUpdates(Client& client, unsigned count) {
        std::string updates;
        for (unsigned i = 0; i < count; ++i) {
            EXPECT_EQ(SSL_key_update(client.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
            EXPECT_EQ(SSL_do_handshake(client.ssl()), 1);
            updates += client.take();
        }
        return updates;
    }
    int unread() {
        int bytes = 0;
        ::ioctl(near_.get(), FIONREAD, &bytes);
        return bytes;
    }

  private:
    void writeFiles() const {
        const Key key(EVP_EC_gen("P-256"));
        const Certificate cert(X509_new());
        X509_gmtime_adj(X509_getm_notBefore(cert.get()), 0);
        X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
        X509_set_pubkey(cert.get(), key.get());
        ASSERT_GT(X509_sign(cert.get(), key.get(), EVP_sha256()), 0);
        const std::unique_ptr<FILE, CloseFile> certs(std::fopen(certFile_.c_str(), "w"));
        PEM_write_X509(certs.get(), cert.get());
        const std::unique_ptr<FILE, CloseFile> keys(std::fopen(keyFile_.c_str(), "w"));
        ::fchmod(::fileno(keys.get()), S_IRUSR | S_IWUSR);
        PEM_write_PrivateKey(keys.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    }

    const std::string certFile_{testing::TempDir() + "tls_test.pem"};
    const std::string keyFile_{testing::TempDir() + "tls_test.key"};
    std::optional<TlsContext> context_;
    Fd near_;
    Fd far_;
    TlsSession server_;
};

TEST_F(TlsTest, AReadProcessesFewKeyUpdates) {
    Client client(TLS1_3_VERSION);
    shakeHands(client);
    const std::string updates = keyUpdates(client, TlsSession::kMostKeyUpdates);
    send(updates);
    EXPECT_EQ(receive(), 0U);
    EXPECT_GT(unread(), static_cast<int>(updates.size()) / 2)
            << "one client took the thread's time";
    for (int i = 0; i < 2; ++i) {  // data allow more of them
        ASSERT_EQ(SSL_write(client.ssl(), "data", 4), 4);
        send(client.take());
        EXPECT_EQ(receiveData(), 4U);
        send(keyUpdates(client, TlsSession::kMostKeyUpdates));
    }
}

TEST_F(TlsTest, KeyUpdatesWithoutDataEndTheConnection) {
    Client client(TLS1_3_VERSION);
    shakeHands(client);
    send(keyUpdates(client, TlsSession::kMostKeyUpdates + 1));
    EXPECT_EQ(receiveData(), std::nullopt);
}

TEST_F(TlsTest, AnotherHandshakeEndsTheConnection) {
    Client client(TLS1_2_VERSION);
    shakeHands(client);
    ASSERT_EQ(SSL_write(client.ssl(), "data", 4), 4);
    send(client.take());
    ASSERT_EQ(receive(), 4U);
    ASSERT_EQ(SSL_renegotiate(client.ssl()), 1);
    SSL_do_handshake(client.ssl());
    send(client.take());
    EXPECT_EQ(receive(), std::nullopt);
}

TEST_F(TlsTest, TheBeginningOfAnotherHandshakeEndsTheConnection) {
    Client client(TLS1_2_VERSION, 2000);
    shakeHands(client);
    SSL_set_max_send_fragment(client.ssl(), 512);
    ASSERT_EQ(SSL_renegotiate(client.ssl()), 1);
    SSL_do_handshake(client.ssl());
    const std::string hello = client.take();  // in several records
    ASSERT_GT(hello.size(), 2000U);
    send(hello.substr(0, 1000));
    EXPECT_EQ(receive(), std::nullopt);
}

}  // namespace
}  // namespace kv::auth
