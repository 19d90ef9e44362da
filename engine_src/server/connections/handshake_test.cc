#include "server/connections/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace kv::server {
namespace {

TEST(HandshakeTest, AnAbandonedHandshakeClosesTheSocketBeforeItsJobIsDropped) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    const Fd client(ends[1]);
    const auto queued =
            std::make_shared<Handshake>(Fd(ends[0]), auth::TlsSession(), std::make_shared<Waker>());
    char byte{};
    ASSERT_EQ(::recv(client.get(), &byte, 1, 0), -1);
    ASSERT_EQ(errno, EAGAIN) << "open as long as the handshake may begin";
    queued->abandon();
    EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 0) << "the end of the stream";
    queued->run();
    EXPECT_FALSE(queued->progress()) << "nothing is left to be done";
}

}  // namespace
}  // namespace kv::server
