// For tests: a server in this process, and clients of it over loopback sockets.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/test_support.h"

namespace kv::server::testing_support {

using namespace std::chrono_literals;

class Client {
  public:
    explicit Client(uint16_t port, int receiveBuffer = 0)
        : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        if (receiveBuffer != 0) {
            setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receiveBuffer, sizeof receiveBuffer);
        }
        const timeval patience{20, 0};
        setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
                  0);
    }
    void send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            ASSERT_GT(sent, 0);
            bytes.remove_prefix(static_cast<size_t>(sent));
        }
    }
    /// Sends bytes until the socket has taken none for `patience`; returns how many it took.
    size_t sendWhatFits(std::string_view bytes, std::chrono::milliseconds patience) {
        size_t taken = 0;
        auto last = std::chrono::steady_clock::now();
        while (taken < bytes.size() && std::chrono::steady_clock::now() - last < patience) {
            const ssize_t sent = ::send(socket_.get(), bytes.data() + taken, bytes.size() - taken,
                                        MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent > 0) {
                taken += static_cast<size_t>(sent);
                last = std::chrono::steady_clock::now();
            } else {
                std::this_thread::sleep_for(5ms);
            }
        }
        return taken;
    }
    /// Waits for `count` answers; returns fewer if the server closes.
    std::vector<Answer> receive(size_t count) {
        std::vector<Answer> found;
        while (found.size() < count && readMore()) {
            auto parsed = parseAnswers(protocol::asBytes(buffer_));
            size_t used = 0;
            for (const auto& answer : parsed) {
                used += protocol::kHeaderSize + answer.extras.size() + answer.key.size() +
                        answer.value.size();
            }
            buffer_.erase(0, used);
            found.insert(found.end(), parsed.begin(), parsed.end());
        }
        return found;
    }
    bool atEnd() { return buffer_.empty() && !readMore(); }
    /// Closes the client's half: no more will be sent.
    void endSending() { ::shutdown(socket_.get(), SHUT_WR); }

  private:
    bool readMore() {
        const ssize_t count = ::recv(socket_.get(), part_.data(), part_.size(), 0);
        buffer_.append(part_, 0, static_cast<size_t>(std::max<ssize_t>(count, 0)));
        return count > 0;
    }

    Fd socket_;
    std::string buffer_;
    std::string part_ = std::string(1 << 18, '\0');
};

class ServerTest : public testing::Test {
  protected:
    /// `prepare` receives the context before the server accepts connections.
    void start(const ServerSettings& settings = {}, const UserStore* users = nullptr,
               size_t threads = 2, const std::function<void(ServerContext&)>& prepare = {}) {
        bucket_ = makeBucket();
        server_ = std::make_unique<Server>(Listener("127.0.0.1", 0), *bucket_, users,
                                           ServerOptions{threads, settings});
        if (prepare) {
            prepare(server_->context());
        }
        server_->start();
        loop_ = std::thread([this] { server_->run(); });
    }
    void TearDown() override {
        if (server_) {
            server_->requestStop();
            loop_.join();
            server_->stop();
        }
    }
    Client connect(int receiveBuffer = 0) { return Client(server_->port(), receiveBuffer); }
    ServerContext& context() { return server_->context(); }
    template <class Condition>
    bool eventually(Condition condition) {
        for (int i = 0; i < 30'000; ++i) {  // five minutes: only stops a test that hangs
            if (condition()) {
                return true;
            }
            std::this_thread::sleep_for(10ms);
        }
        return false;
    }
    /// Waits until the server has read `bytes` bytes in total.
    bool hasRead(uint64_t bytes) {
        const auto patience = std::chrono::steady_clock::now() + 20s;
        while (sum(&FrontEndStats::bytesRead) < bytes) {
            if (std::chrono::steady_clock::now() > patience) {
                return false;
            }
            std::this_thread::yield();
        }
        return true;
    }
    uint64_t sum(Counter FrontEndStats::*counter) {
        uint64_t total = 0;
        for (const auto* stats : context().threadStats) {
            total += (stats->*counter).get();
        }
        return total;
    }

    std::unique_ptr<Bucket> bucket_;
    std::unique_ptr<Server> server_;
    std::thread loop_;
};

}  // namespace kv::server::testing_support
