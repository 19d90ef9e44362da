#include "server/replication/replication_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <system_error>

namespace kv::server {
namespace {

/// A bound loopback port; it answers connections only if `listening`.
class Port {
  public:
    explicit Port(bool listening) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address_;
        EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address_), size), 0);
        EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size), 0);
        if (listening) {
            EXPECT_EQ(::listen(socket_, 8), 0);
        }
    }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port() { ::close(socket_); }

    /// An address as getaddrinfo() returns it; `next` outlives it.
    addrinfo resolved(addrinfo* next = nullptr) {
        addrinfo info{};
        info.ai_family = AF_INET;
        info.ai_socktype = SOCK_STREAM;
        info.ai_addr = reinterpret_cast<sockaddr*>(&address_);
        info.ai_addrlen = sizeof address_;
        info.ai_next = next;
        return info;
    }

  private:
    int socket_;
    sockaddr_in address_{};
};

TEST(ReplicationLink, TriesEveryAddressOfAHost) {
    Port silent(false);
    Port open(true);
    auto second = open.resolved();
    const auto first = silent.resolved(&second);
    ReplicationLink link;
    EXPECT_NO_THROW(link.connect(first));
    link.send({.opcode = protocol::Opcode::kNoop});
    EXPECT_NO_THROW(link.flush());
}

TEST(ReplicationLink, ReportsWhyTheLastAddressFailed) {
    Port silent(false);
    Port alsoSilent(false);
    auto second = alsoSilent.resolved();
    ReplicationLink link;
    EXPECT_THROW(link.connect(silent.resolved(&second)), std::system_error);
}

}  // namespace
}  // namespace kv::server
