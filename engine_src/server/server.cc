#include "server/server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cstring>
#include <stdexcept>

namespace kv::server {

namespace {

/// Shows clients that this history differs from the one before a restart.
std::string randomUuid() {
    const auto bytes = crypto::randomBytes(16);
    std::string text;
    for (const char byte : bytes) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    return text;
}

PublishedConfig firstConfig(const Bucket& bucket, uint16_t port, uint16_t tlsPort) {
    const auto uuid = randomUuid();
    return {ClusterConfig(bucket.name(), bucket.vbucketCount(), port, uuid, tlsPort), uuid};
}

}  // namespace

Server::Server(Listener listener, Bucket& bucket, const UserStore* users,
               const ServerOptions& options, std::optional<TlsListener> tls)
    : listener_(std::move(listener)),
      tls_(std::move(tls)),
      context_{.bucket = bucket,
               .users = users,
               .config = firstConfig(bucket, listener_.port(), tlsPort()),
               .settings = options.settings,
               .commands = commands_,
               .threadStats = {},
               .configStats = {},
               .statSources = {},
               .statResets = {}},
      base_(event_base_new()),
      stopFd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!base_ || !stopFd_) {
        throw std::runtime_error("cannot make the main event loop");
    }
    context_.statCollector = &statCollector_;
    context_.bucketJobs = &bucketJobs_;
    context_.storeReads = &storeReads_;
    context_.keyLists = &keyLists_;
    if (tls_) {
        context_.handshakes = &handshakes_.emplace("tls_handshakes");
    }
    stopEvent_.reset(event_new(base_.get(), stopFd_.get(), EV_READ | EV_PERSIST, onStop, this));
    event_add(stopEvent_.get(), nullptr);
    for (size_t i = 0; i < options.threads; ++i) {
        threads_.push_back(std::make_unique<FrontEndThread>(context_, i));
        context_.threadStats.push_back(&threads_.back()->stats());
    }
}

Server::~Server() {
    stop();
}

void Server::start() {
    for (auto& thread : threads_) {
        thread->start();
    }
    listener_.start(base_.get(), [this](Fd socket) { hand(std::move(socket), nullptr); });
    if (tls_) {
        tls_->listener.start(base_.get(),
                             [this](Fd socket) { hand(std::move(socket), &tls_->context); });
    }
}

void Server::run() {
    event_base_dispatch(base_.get());
}

void Server::requestStop() {
    const uint64_t increment = 1;
    // Fails only if the counter is full; then the stop has been requested before.
    [[maybe_unused]] const auto written = ::write(stopFd_.get(), &increment, sizeof increment);
}

void Server::stop() {
    listener_.stop();
    if (tls_) {
        tls_->listener.stop();
    }
    for (auto& thread : threads_) {
        thread->stop();
    }
    // After stop() the caller persists, so nothing may be queued any more, and destroys what the
    // STAT groups read.
    bucketJobs_.stop();
    storeReads_.stop();
    keyLists_.stop();
    if (handshakes_) {
        handshakes_->stop();
    }
    statCollector_.stop();
}

void Server::onStop(int, short, void* self) {
    event_base_loopbreak(static_cast<Server*>(self)->base_.get());
}

void Server::hand(Fd socket, const auth::TlsContext* tls) {
    context_.acceptedConnections.fetch_add(1, std::memory_order_relaxed);
    ConnectionSlot slot(context_.connections);
    const uint32_t taken = context_.connections.load(std::memory_order_relaxed);
    const auto& settings = context_.settings;
    const uint32_t reserve = context_.users != nullptr ? settings.reservedConnections : 0;
    const Crowd crowd = taken > settings.maxConnections + reserve ? Crowd::Full
                        : taken > settings.maxConnections         ? Crowd::ReserveOnly
                                                                  : Crowd::None;
    const uint64_t id = nextConnection_++;
    size_t chosen = id % threads_.size();
    if (crowd != Crowd::None) {
        // Only a thread itself can close its connections.
        for (size_t i = 0; i < threads_.size() && threads_[chosen]->unauthenticated() == 0; ++i) {
            chosen = (chosen + 1) % threads_.size();
        }
    }
    threads_[chosen]->adopt(std::move(socket), std::move(slot), id, crowd, tls);
}

}  // namespace kv::server
