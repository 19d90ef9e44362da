#include "server/connections/front_end_thread.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "logging/log.h"

namespace kv::server {

namespace {

/// Only the loop's own thread uses the base, so it needs no locks.
EventBasePtr makeBase() {
    event_config* config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    EventBasePtr base(event_base_new_with_config(config));
    event_config_free(config);
    return base;
}

constexpr timeval kNow{0, 0};
constexpr timeval kSweepPeriod{1, 0};

template <class Pointer>
Pointer checked(Pointer pointer, const char* what) {
    if (!pointer) {
        throw std::runtime_error(std::string("libevent: ") + what + " failed");
    }
    return pointer;
}

}  // namespace

FrontEndThread::FrontEndThread(ServerContext& server, size_t index)
    : server_(server),
      index_(index),
      stats_(server.settings.timingSample),
      base_(checked(makeBase(), "event_base_new")),
      wakeFd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      wakeEvent_(checked(
              EventPtr(event_new(base_.get(), wakeFd_.get(), EV_READ | EV_PERSIST, onWake, this)),
              "event_new")),
      resumeEvent_(checked(EventPtr(event_new(base_.get(), -1, 0, onResume, this)), "event_new")),
      sweepEvent_(checked(EventPtr(event_new(base_.get(), -1, EV_PERSIST, onSweep, this)),
                          "event_new")),
      readBuffer_(server.settings.readBufferBytes) {
    event_add(wakeEvent_.get(), nullptr);
    event_add(sweepEvent_.get(), &kSweepPeriod);
}

FrontEndThread::~FrontEndThread() {
    stop();
    connections_.clear();  // before the loop that they are registered with
}

void FrontEndThread::start() {
    thread_ = std::thread([this] {
        pthread_setname_np(pthread_self(), ("front-end-" + std::to_string(index_)).c_str());
        event_base_loop(base_.get(), EVLOOP_NO_EXIT_ON_EMPTY);
    });
}

void FrontEndThread::stop() {
    if (!thread_.joinable()) {
        return;
    }
    post([this] {
        // A connection that fails to send removes itself, so iterate over a copy of the ids.
        std::vector<uint64_t> ids;
        for (const auto& [id, connection] : connections_) {
            ids.push_back(id);
        }
        for (const auto id : ids) {
            takeTurn(id, [](Connection& it) { it.flushOnce(); });
        }
        event_base_loopbreak(base_.get());
    });
    thread_.join();
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    posted_.clear();
}

void FrontEndThread::post(std::function<void()> task) {
    {
        const std::lock_guard lock(mutex_);
        if (stopped_) {
            return;
        }
        posted_.push_back(std::move(task));
    }
    const uint64_t increment = 1;
    // Fails only if the counter is full; the thread is being woken then anyway.
    [[maybe_unused]] const auto written = ::write(wakeFd_.get(), &increment, sizeof increment);
}

void FrontEndThread::adopt(Fd socket, ConnectionSlot slot, uint64_t id, Crowd crowd,
                           const auth::TlsContext* tls) {
    // std::function must be copyable, and a socket has one owner.
    auto shared =
            std::make_shared<std::pair<Fd, ConnectionSlot>>(std::move(socket), std::move(slot));
    post([this, shared, id, crowd, tls] {
        auto& [fd, mine] = *shared;
        const bool madeRoom = crowd != Crowd::None && closeUnauthenticated();
        if (crowd == Crowd::Full && !madeRoom) {
            server_.rejectedConnections.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        try {
            auto made =
                    std::make_unique<Connection>(*this, std::move(fd), std::move(mine), id, tls);
            listIfUnauthenticated(*made);
            connections_.emplace(id, std::move(made));
        } catch (const std::exception& error) {
            log::error("connection {}: {}", id, error.what());
        }
    });
}

bool FrontEndThread::closeUnauthenticated() {
    bool closed = false;
    while (!closed && !unauthenticated_.empty()) {
        const auto most = std::max_element(unauthenticated_.begin(), unauthenticated_.end(),
                                           [](const auto& one, const auto& other) {
                                               return one.second.size() < other.second.size();
                                           });
        auto& ids = most->second;
        takeTurn(ids.front(), [&closed](Connection& it) { closed = it.makeRoom(); });
        ids.pop_front();
        if (ids.empty()) {
            unauthenticated_.erase(most);
        }
    }
    return closed;
}

void FrontEndThread::listIfUnauthenticated(Connection& connection) {
    if (connection.countAsUnauthenticated(unauthenticatedCount_)) {
        unauthenticated_[connection.peer()].push_back(connection.id());
    }
}

bool FrontEndThread::isUnauthenticated(uint64_t id) const {
    const auto found = connections_.find(id);
    return found != connections_.end() && found->second->isUnauthenticated();
}

void FrontEndThread::resumeLater(Connection& connection) {
    toResume_.push_back(connection.id());
    // A timer of 0 instead of an activation: libevent serves new sockets before the next timer.
    if (toResume_.size() == 1) {
        event_add(resumeEvent_.get(), &kNow);
    }
}

void FrontEndThread::wakeLater(uint64_t id) noexcept {
    try {
        post([this, id] { takeTurn(id, [](Connection& it) { it.wake(); }); });
    } catch (const std::bad_alloc&) {
        return;
    }
}

void FrontEndThread::closeHolderLater(uint64_t id) noexcept {
    try {
        post([this, id] { takeTurn(id, [](Connection& it) { it.closeAsLargestHolder(); }); });
    } catch (const std::bad_alloc&) {
        server_.buffers.stays(id);
    }
}

void FrontEndThread::endAfter(uint64_t id, const std::exception& error) {
    log::error("connection {}: closed: {}", id, error.what());
    output_.clear();
    connections_.erase(id);
}

void FrontEndThread::remove(Connection& connection) {
    connections_.erase(connection.id());
}

void FrontEndThread::onWake(int fd, short, void* self) {
    uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(fd, &count, sizeof count);
    static_cast<FrontEndThread*>(self)->runPosted();
}

void FrontEndThread::onResume(int, short, void* self) {
    static_cast<FrontEndThread*>(self)->resumeAll();
}

void FrontEndThread::onSweep(int, short, void* self) {
    try {
        static_cast<FrontEndThread*>(self)->sweepAll();
    } catch (const std::bad_alloc& error) {
        log::warn("front end: this second's sweep: {}", error.what());
    }
}

void FrontEndThread::runPosted() {
    std::vector<std::function<void()>> tasks;
    {
        const std::lock_guard lock(mutex_);
        tasks.swap(posted_);
    }
    for (const auto& task : tasks) {
        try {
            task();
        } catch (const std::exception& error) {
            // libevent calls this function, and no exception may pass through it.
            log::warn("front end: {}", error.what());
        }
    }
}

void FrontEndThread::resumeAll() {
    std::vector<uint64_t> ids;
    ids.swap(toResume_);
    for (const auto id : ids) {
        takeTurn(id, [](Connection& it) { it.resume(); });
    }
}

void FrontEndThread::sweepAll() {
    const auto now = Connection::Clock::now();
    std::vector<uint64_t> ids;
    ids.reserve(connections_.size());
    for (const auto& [id, connection] : connections_) {
        ids.push_back(id);
    }
    for (const auto id : ids) {
        takeTurn(id, [now](Connection& it) { it.sweep(now); });
    }
    // Again, if a later login of a connection has failed.
    for (const auto& [id, connection] : connections_) {
        listIfUnauthenticated(*connection);
    }
    for (auto entry = unauthenticated_.begin(); entry != unauthenticated_.end();) {
        std::erase_if(entry->second, [this](uint64_t id) { return !isUnauthenticated(id); });
        entry = entry->second.empty() ? unauthenticated_.erase(entry) : std::next(entry);
    }
}

}  // namespace kv::server
