#include "server/replication/replicator.h"

#include <fmt/format.h>
#include <pthread.h>

#include "logging/log.h"

namespace kv::server {

namespace {

constexpr auto kDrainPeriod = std::chrono::milliseconds(100);

}  // namespace

Replicator::Replicator(Bucket& bucket, Executor& executor, ReplicationSource source,
                       std::vector<bool> vbuckets)
    : executor_(executor),
      source_(std::move(source)),
      session_(
              bucket, source_, [this](const protocol::FrameSpec& frame) { link_.send(frame); },
              std::move(vbuckets)),
      drain_(executor.schedule("dcp_consumer", TaskPool::NonIO, kDrainPeriod, [this] {
          return session_.processBuffered() ? TaskResult::after(std::chrono::milliseconds(1))
                                            : TaskResult::after(kDrainPeriod);
      })) {
    try {
        thread_ = std::thread([this] { run(); });
    } catch (...) {
        executor_.cancel(drain_);  // it refers to this object
        throw;
    }
    pthread_setname_np(thread_.native_handle(), "replicator");
}

Replicator::~Replicator() {
    link_.stop();
    thread_.join();
    executor_.cancel(drain_);
}

void Replicator::run() {
    while (!link_.stopping()) {
        try {
            replicate();
        } catch (const std::exception& error) {
            if (!link_.stopping()) {
                log::warn("replication from {}:{}: {}; trying again", source_.host, source_.port,
                          error.what());
            }
        }
        connected_ = false;
        link_.close();
        link_.sleep(ReplicationSession::kRetryPause);
    }
}

void Replicator::replicate() {
    link_.connect(source_.host, source_.port);
    if (source_.tls) {
        link_.secure(*source_.tls, source_.host);
    }
    connected_ = true;
    ++connections_;
    session_.begin();
    link_.flush();
    const auto upkeep = [this] { session_.upkeep(); };
    while (link_.waitForInput(upkeep)) {
        link_.readFrames([this](const protocol::FrameView& frame) { session_.handle(frame); });
        upkeep();
        link_.flush();
    }
}

KeyValues Replicator::stats() const {
    KeyValues stats{{"source", fmt::format("{}:{}", source_.host, source_.port)},
                    {"connected", connected_ ? "true" : "false"},
                    {"connections", std::to_string(connections_)}};
    for (auto& figure : session_.stats()) {
        stats.push_back(std::move(figure));
    }
    return stats;
}

}  // namespace kv::server
