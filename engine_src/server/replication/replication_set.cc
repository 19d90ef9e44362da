#include "server/replication/replication_set.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <stdexcept>

#include "logging/log.h"

namespace kv::server {

namespace {

constexpr auto kRetryPause = std::chrono::seconds(1);

}  // namespace

ReplicationSet::ReplicationSet(Bucket& bucket, Executor& executor, ReplicationSource login)
    : bucket_(bucket), executor_(executor), login_(std::move(login)), thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), "replication");
}

ReplicationSet::~ReplicationSet() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

bool ReplicationSet::follow(std::shared_ptr<const ClusterConfig> config) {
    {
        const std::lock_guard lock(mutex_);
        if (config->version() <= version_) {
            return false;
        }
        version_ = config->version();
        wanted_ = std::move(config);
    }
    changed_.notify_one();
    return true;
}

void ReplicationSet::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stopping_ || wanted_ != nullptr; });
        if (stopping_) {
            return;
        }
        const auto config = std::exchange(wanted_, nullptr);
        lock.unlock();
        const bool applied = tryApply(*config);
        lock.lock();
        if (!applied && wanted_ == nullptr) {
            wanted_ = config;
            changed_.wait_for(lock, kRetryPause,
                              [this, &config] { return stopping_ || wanted_ != config; });
        }
    }
}

bool ReplicationSet::tryApply(const ClusterConfig& config) {
    try {
        apply(config);
        return true;
    } catch (const std::exception& error) {
        log::error("cannot replicate as the cluster map requires: {}; trying again", error.what());
        return false;
    }
}

std::string ReplicationSet::addressOf(const ClusterConfig& config, size_t server) const {
    const std::string& address = config.servers()[server];
    if (!login_.tls) {
        return address;
    }
    // Without a TLS port the port is 0, which is refused: replication never falls back to plain
    // TCP.
    return address.substr(0, address.rfind(':') + 1) + std::to_string(config.tlsPort(server));
}

void ReplicationSet::apply(const ClusterConfig& config) {
    std::map<std::string, std::vector<bool>> wanted;
    for (size_t server = 0; server < config.servers().size(); ++server) {
        auto vbuckets = config.replicatedFrom(server);
        if (std::find(vbuckets.begin(), vbuckets.end(), true) != vbuckets.end()) {
            wanted.emplace(addressOf(config, server), std::move(vbuckets));
        }
    }
    // They end before others start, so that a vBucket never has two sources.
    std::vector<Source> ended;
    {
        const std::lock_guard lock(mutex_);
        const auto stays = [&wanted](const Source& source) {
            const auto found = wanted.find(source.address);
            return found != wanted.end() && found->second == source.vbuckets;
        };
        ended.reserve(sources_.size());  // from here on nothing in this block can fail
        const auto gone = std::stable_partition(sources_.begin(), sources_.end(), stays);
        std::move(gone, sources_.end(), std::back_inserter(ended));
        sources_.erase(gone, sources_.end());
        for (const auto& source : sources_) {
            wanted.erase(source.address);
        }
    }
    ended.clear();  // waits for their threads, so it needs to be outside of the lock
    for (auto& [address, vbuckets] : wanted) {
        try {
            ReplicationSource source = parseSource(address);
            source.user = login_.user;
            source.password = login_.password;
            source.tls = login_.tls;
            auto replicator =
                    std::make_unique<Replicator>(bucket_, executor_, std::move(source), vbuckets);
            const std::lock_guard lock(mutex_);
            sources_.push_back({address, std::move(vbuckets), std::move(replicator)});
        } catch (const std::invalid_argument& error) {
            log::error("cannot replicate as the cluster map requires: {}{}", error.what(),
                       login_.tls ? "; nodesExt has the ports for TLS (kvSSL)" : "");
        }
    }
}

KeyValues ReplicationSet::stats() const {
    const std::lock_guard lock(mutex_);
    size_t connected = 0;
    std::map<std::string, uint64_t> sums{
            {"connections", 0}, {"streams_opened", 0}, {"rollbacks", 0},
            {"messages", 0},    {"bytes", 0},          {"held_back", 0},
            {"refused", 0},     {"copies_kept", 0},    {"streams_refused", 0}};
    KeyValues vbuckets;
    for (const auto& source : sources_) {
        for (const auto& [name, value] : source.replicator->stats()) {
            connected += name == "connected" && value == "true" ? 1U : 0U;
            if (const auto sum = sums.find(name); sum != sums.end()) {
                sum->second += std::stoull(value);
            } else if (name.starts_with("vb_")) {
                vbuckets.emplace_back(name, value);
            }
        }
    }
    KeyValues values{{"sources", std::to_string(sources_.size())},
                     {"connected", std::to_string(connected)}};
    for (const auto& [name, sum] : sums) {
        values.emplace_back(name, std::to_string(sum));
    }
    values.insert(values.end(), vbuckets.begin(), vbuckets.end());
    return values;
}

}  // namespace kv::server
