#include "server/replication/replication_link.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace kv::server {

namespace {

constexpr size_t kReadBytes = 256U << 10U;
constexpr auto kStep = std::chrono::milliseconds(100);
/// The source is considered gone after this time without a message or a no-op.
constexpr auto kSilence = std::chrono::seconds(60);

std::system_error systemError(const char* what) {
    return {errno, std::generic_category(), what};
}

}  // namespace

ReplicationLink::ReplicationLink() : stopFd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!stopFd_) {
        throw systemError("eventfd");
    }
}

void ReplicationLink::connect(const std::string& host, uint16_t port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error =
                ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
        throw std::runtime_error(::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
    connect(*addresses);
}

void ReplicationLink::connect(const addrinfo& addresses) {
    for (const addrinfo* address = &addresses;; address = address->ai_next) {
        try {
            connectTo(*address);
            return;
        } catch (const std::runtime_error&) {
            socket_ = Fd();
            if (address->ai_next == nullptr || stopping_) {
                throw;
            }
        }
    }
}

void ReplicationLink::connectTo(const addrinfo& address) {
    socket_ = Fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) {
        throw systemError("socket");
    }
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket_.get(), address.ai_addr, address.ai_addrlen) != 0 &&
        errno != EINPROGRESS) {
        throw systemError("connect");
    }
    if (!waitFor(POLLOUT)) {
        throw std::runtime_error("stopping");
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        errno = error;
        throw systemError("connect");
    }
}

void ReplicationLink::secure(const auth::TlsContext& tls, const std::string& host) {
    using TlsStep = auth::TlsSession::Handshake;
    tls_ = tls.connect(socket_.get(), host);
    for (auto state = tls_.handshake(); state != TlsStep::Done; state = tls_.handshake()) {
        if (!waitFor(state == TlsStep::WantsOutput ? POLLOUT : POLLIN)) {
            throw std::runtime_error("stopping");
        }
    }
}

void ReplicationLink::close() {
    tls_ = {};
    socket_ = Fd();
    input_.clear();
    output_.clear();
}

void ReplicationLink::flush() {
    size_t sent = 0;
    while (sent < output_.size()) {
        const size_t count = sendSome(protocol::Bytes(output_).subspan(sent));
        sent += count;
        if (count == 0 && !waitFor(POLLOUT)) {
            break;
        }
    }
    output_.clear();
}

size_t ReplicationLink::sendSome(protocol::Bytes bytes) {
    if (tls_) {
        const auto taken = tls_.send(bytes.data(), bytes.size());
        return taken ? *taken : throw std::runtime_error("the source closed the connection");
    }
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
        throw systemError("send");
    }
    return static_cast<size_t>(std::max<ssize_t>(count, 0));
}

size_t ReplicationLink::receiveSome(uint8_t* to, size_t room) {
    if (tls_) {
        const auto came = tls_.receive(to, room);
        return came ? *came : throw std::runtime_error("the source closed the connection");
    }
    const ssize_t count = ::recv(socket_.get(), to, room, 0);
    if (count == 0) {
        throw std::runtime_error("the source closed the connection");
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
        throw systemError("recv");
    }
    return static_cast<size_t>(std::max<ssize_t>(count, 0));
}

bool ReplicationLink::waitForInput(const std::function<void()>& whileWaiting) {
    return waitFor(POLLIN, whileWaiting);
}

void ReplicationLink::readFrames(const std::function<void(const protocol::FrameView&)>& handle) {
    const size_t kept = input_.size();
    input_.resize(kept + kReadBytes);
    size_t came = 0;
    do {
        came += receiveSome(input_.data() + kept + came, kReadBytes - came);
    } while (tls_ && tls_.hasPending() && came < kReadBytes);
    input_.resize(kept + came);
    size_t used = 0;
    while (true) {
        const auto parsed = protocol::parseFrame(protocol::Bytes(input_).subspan(used));
        if (parsed.outcome == protocol::ParseOutcome::kBad) {
            throw std::runtime_error("a broken frame");
        }
        if (parsed.outcome == protocol::ParseOutcome::kNeedMore) {
            break;
        }
        used += parsed.frame.size();
        handle(parsed.frame);
    }
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(used));
}

void ReplicationLink::sleep(std::chrono::milliseconds time) {
    pollfd stop{stopFd_.get(), POLLIN, 0};
    ::poll(&stop, 1, static_cast<int>(time.count()));
}

void ReplicationLink::stop() {
    stopping_ = true;
    const uint64_t increment = 1;
    [[maybe_unused]] const auto written = ::write(stopFd_.get(), &increment, sizeof increment);
}

bool ReplicationLink::waitFor(short events, const std::function<void()>& whileWaiting) {
    if ((events & POLLIN) != 0 && tls_ && tls_.hasPending()) {
        return !stopping_;
    }
    for (std::chrono::milliseconds waited{0}; waited < kSilence; waited += kStep) {
        pollfd fds[2] = {{socket_.get(), events, 0}, {stopFd_.get(), POLLIN, 0}};
        const int ready = ::poll(fds, 2, static_cast<int>(kStep.count()));
        if (stopping_) {
            return false;
        }
        if (ready > 0 && fds[0].revents != 0) {
            return true;
        }
        if (whileWaiting) {
            whileWaiting();
            if (!output_.empty()) {
                return true;
            }
        }
    }
    throw std::runtime_error("the source has been silent for too long");
}

}  // namespace kv::server
