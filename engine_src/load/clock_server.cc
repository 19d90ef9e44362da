#include "load/clock_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "load/clock_protocol.h"
#include "load/load_error.h"
#include "types/endian.h"

namespace kv::load {

struct ClockServer::Process {
    int pid;
    Socket alive;  // pidfd: readable when the process has ended, whoever gets its number then
    ProcessCpuClock clock;
    bool ended = false;
};

struct ClockServer::Client {
    Socket socket;
    std::string nonce;
    Nanos deadline;       // for the proof
    bool known = false;   // has proved to know the password
    std::string heard{};  // less than a message
};

namespace {

template <class Number>
void appendBig(std::string& text, Number number) {
    text.resize(text.size() + sizeof(number));
    storeBig(text.data() + text.size() - sizeof(number), number);
}

/// Small messages always fit into the socket's buffer, unless the client does not read.
bool tell(const Socket& socket, std::string_view text) {
    return ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
}

}  // namespace

ClockServer::ClockServer(const Address& listen, std::string password, const std::vector<int>& pids)
    : password_(std::move(password)) {
    if (password_.empty()) {
        throw LoadError("the password is empty: anybody could prove to know it");
    }
    if (pids.empty() || pids.size() > kClockMaxPids) {
        throw LoadError("1 to " + std::to_string(kClockMaxPids) + " processes can be served");
    }
    for (const int pid : pids) {
        // By number: the header of glibc 2.36 declares pidfd_open() for C only.
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
        if (clients_.size() >= kMaxClients) {
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
        for (auto& process : processes_) {  // before anybody asks for them
            process.ended = process.ended || state->revents != 0;
            ++state;
        }
        const Nanos now = nowNanos();
        for (auto client = clients_.begin(); client != clients_.end(); ++state) {
            const bool stays = (state->revents == 0 || hear(*client)) &&
                               (client->known || now < client->deadline);
            client = stays ? std::next(client) : clients_.erase(client);
        }
        if (waiting[1].revents != 0) {
            acceptSome();
        }
    }
}

void ClockServer::acceptSome() {
    while (clients_.size() < kMaxClients) {
        Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket.fd() < 0) {
            return;
        }
        const int on = 1;
        ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        auto nonce = crypto::randomBytes(kClockNonceSize);
        if (tell(socket, std::string(kClockMagic) + nonce)) {
            clients_.push_back({std::move(socket), std::move(nonce), nowNanos() + kProofTime});
        }
    }
}

bool ClockServer::hear(Client& client) {
    char bytes[256];
    const auto got = ::recv(client.socket.fd(), bytes, sizeof(bytes), 0);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    client.heard.append(bytes, static_cast<std::size_t>(got));
    if (!client.known) {
        if (client.heard.size() < kClockProofSize) {
            return true;
        }
        if (!checkProof(client)) {
            return false;
        }
    }
    std::size_t at = 0;
    for (; client.heard.size() - at >= sizeof(std::uint32_t); at += sizeof(std::uint32_t)) {
        const auto index = loadBig<std::uint32_t>(client.heard.data() + at);
        if (!answer(client, index)) {
            return false;
        }
    }
    client.heard.erase(0, at);
    return true;
}

bool ClockServer::checkProof(Client& client) {
    client.known = crypto::equalConstantTime(client.heard.substr(0, kClockProofSize),
                                             clockProof(password_, client.nonce));
    client.heard.erase(0, kClockProofSize);
    std::string pids;
    appendBig(pids, static_cast<std::uint32_t>(processes_.size()));
    for (const auto& process : processes_) {
        appendBig(pids, static_cast<std::uint32_t>(process.pid));
    }
    return client.known && tell(client.socket, pids);
}

bool ClockServer::answer(Client& client, std::uint32_t index) {
    if (index >= processes_.size() || processes_[index].ended) {
        return false;
    }
    std::string nanos;
    try {
        appendBig(nanos, static_cast<std::uint64_t>(processes_[index].clock.read()));
    } catch (const LoadError&) {
        return false;  // it has just ended
    }
    return tell(client.socket, nanos);
}

}  // namespace kv::load
