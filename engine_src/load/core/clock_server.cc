#include "load/core/clock_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "load/core/clock_protocol.h"
#include "load/core/cpu_clock.h"
#include "load/core/load_error.h"
#include "types/endian.h"

namespace kv::load {

struct ClockServer::Process {
    int pid;
    Socket alive;  // pidfd: readable when the process has ended, even if its number is reused
    ProcessCpuClock clock;
    bool ended = false;
};

struct ClockServer::Client {
    Socket socket;
    std::string nonce;
    Nanos deadline;          // for the proof
    bool known = false;      // has proved that it knows the password
    std::string received{};  // less than a message
};

namespace {

template <class Number>
void appendBig(std::string& text, Number number) {
    text.resize(text.size() + sizeof(number));
    storeBig(text.data() + text.size() - sizeof(number), number);
}

/// Sends a small message, which always fits into the socket's buffer unless the client does not
/// read.
bool sendText(const Socket& socket, std::string_view text) {
    return ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
}

}  // namespace

ClockServer::ClockServer(const Address& listen, std::string password, const std::vector<int>& pids)
    : password_(std::move(password)) {
    if (password_.empty()) {
        throw LoadError("the password is empty");
    }
    if (pids.empty() || pids.size() > kClockMaxPids) {
        throw LoadError("1 to " + std::to_string(kClockMaxPids) + " processes can be served");
    }
    for (const int pid : pids) {
        // By number, because glibc 2.36 declares pidfd_open() for C only.
        Socket alive(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (alive.fd() < 0) {
            throw LoadError("process " + std::to_string(pid) + ": " + errnoText(errno));
        }
        processes_.push_back({pid, std::move(alive), ProcessCpuClock(pid)});
        pollfd state{processes_.back().alive.fd(), POLLIN, 0};
        if (::poll(&state, 1, 0) != 0) {  // a zombie still has a number
            throw LoadError("process " + std::to_string(pid) + " has ended");
        }
    }
    listener_ = listenOn(listen.host, listen.port);
    port_ = portOf(listener_);
}

ClockServer::~ClockServer() = default;

void ClockServer::run(const Socket& stop) {
    std::vector<pollfd> waiting;
    for (;;) {
        waiting.assign({{stop.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}});
        if (clients_.size() >= kMaxClients && oldestStranger() == clients_.end()) {
            waiting[1].fd = -1;  // the others wait in the kernel's queue
        }
        for (const auto& process : processes_) {
            waiting.push_back({process.ended ? -1 : process.alive.fd(), POLLIN, 0});
        }
        bool unproved = false;
        for (const auto& client : clients_) {
            waiting.push_back({client.socket.fd(), POLLIN, 0});
            unproved = unproved || !client.known;
        }
        if (::poll(waiting.data(), waiting.size(), unproved ? 100 : -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            throw LoadError("poll: " + errnoText(errno));
        }
        if (waiting[0].revents != 0) {
            return;
        }
        auto state = waiting.begin() + 2;
        for (auto& process : processes_) {  // before the first question
            process.ended = process.ended || state->revents != 0;
            ++state;
        }
        const Nanos now = nowNanos();
        for (auto client = clients_.begin(); client != clients_.end(); ++state) {
            const bool stays = (state->revents == 0 || handleInput(*client)) &&
                               (client->known || now < client->deadline);
            client = stays ? std::next(client) : clients_.erase(client);
        }
        if (waiting[1].revents != 0) {
            acceptSome();
        }
    }
}

std::list<ClockServer::Client>::iterator ClockServer::oldestStranger() {
    return std::find_if(clients_.begin(), clients_.end(),
                        [](const Client& client) { return !client.known; });
}

void ClockServer::acceptSome() {
    for (std::size_t count = 0; count < kMaxClients; ++count) {
        Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket.fd() < 0) {
            return;
        }
        if (clients_.size() >= kMaxClients) {
            const auto stranger = oldestStranger();
            if (stranger == clients_.end()) {
                return;
            }
            clients_.erase(stranger);
        }
        const int on = 1;
        ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        auto nonce = crypto::randomBytes(kClockNonceSize);
        if (sendText(socket, std::string(kClockMagic) + nonce)) {
            clients_.push_back({std::move(socket), std::move(nonce), nowNanos() + kProofTime});
        }
    }
}

bool ClockServer::handleInput(Client& client) {
    char bytes[256];
    const auto got = ::recv(client.socket.fd(), bytes, sizeof(bytes), 0);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    client.received.append(bytes, static_cast<std::size_t>(got));
    if (!client.known) {
        if (client.received.size() < kClockProofSize) {
            return true;
        }
        if (!checkProof(client)) {
            return false;
        }
    }
    const bool questions = client.received.find_first_not_of(kClockQuestion) == std::string::npos;
    for (std::size_t left = questions ? client.received.size() : 0; left != 0; --left) {
        if (!sendText(client.socket, times())) {
            return false;
        }
    }
    client.received.clear();
    return questions;
}

bool ClockServer::checkProof(Client& client) {
    client.known = crypto::equalConstantTime(client.received.substr(0, kClockProofSize),
                                             clockProof(password_, client.nonce));
    client.received.erase(0, kClockProofSize);
    std::string pids;
    appendBig(pids, static_cast<std::uint32_t>(processes_.size()));
    for (const auto& process : processes_) {
        appendBig(pids, static_cast<std::uint32_t>(process.pid));
    }
    return client.known && sendText(client.socket, pids);
}

std::string ClockServer::times() {
    std::string nanos;
    for (auto& process : processes_) {
        auto time = kClockEnded;
        try {
            time = process.ended ? kClockEnded : static_cast<std::uint64_t>(process.clock.read());
        } catch (const LoadError&) {
            process.ended = true;
        }
        appendBig(nanos, time);
    }
    return nanos;
}

}  // namespace kv::load
