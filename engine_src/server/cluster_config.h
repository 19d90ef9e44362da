// ClusterConfig: which node has which vBucket, as clients are told. At first the one-node map: all
// of them are here. A manager may publish another (SET_CLUSTER_CONFIG); it is served as it came.
//
// Immutable once built, so any thread may read it. "$HOST" is replaced by the client with the
// address it dialled.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/extras.h"

namespace kv::server {

/// What was published is no cluster config for this node; the message says why.
class ClusterConfigError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

class ClusterConfig {
  public:
    /// The one-node map: the smallest text that libcouchbase, the C++ SDK (Python, Node), gocb and
    /// the Java SDK accept. `uuid` tells two runs of a server apart; hexadecimal.
    ClusterConfig(std::string_view bucket, uint16_t vbuckets, uint16_t port, std::string_view uuid);

    /// A published one: its map must have `vbuckets` rows, and exactly one of its nodes must be
    /// `thisNode`. Throws ClusterConfigError.
    static ClusterConfig parse(std::string json, uint16_t vbuckets);

    [[nodiscard]] const std::string& json() const { return json_; }
    [[nodiscard]] protocol::ConfigVersion version() const { return version_; }

    /// HOST:PORT of every node, by its number in the map.
    [[nodiscard]] const std::vector<std::string>& servers() const { return servers_; }
    /// The number of this node.
    [[nodiscard]] size_t self() const { return self_; }
    /// The vBuckets that are active on `server` and replicas here.
    [[nodiscard]] std::vector<bool> replicatedFrom(size_t server) const;
    /// Whether a majority is more than one node: the map has room for replicas, if only for one
    /// that is missing (-1).
    [[nodiscard]] bool hasReplicas() const { return replicas_; }

  private:
    ClusterConfig() = default;

    std::string json_;
    protocol::ConfigVersion version_{1, 1};
    std::vector<std::string> servers_;
    size_t self_{0};
    std::vector<std::vector<int>>
            map_;  ///< by vBucket: the active node, then the replicas; -1 none
    bool replicas_{false};
};

/// The config in force. Any thread.
class PublishedConfig {
  public:
    PublishedConfig(ClusterConfig first, std::string_view uuid)
        : uuid_(uuid), current_(std::make_shared<const ClusterConfig>(std::move(first))) {}

    [[nodiscard]] std::shared_ptr<const ClusterConfig> current() const {
        const std::lock_guard lock(mutex_);
        return current_;
    }
    /// Of this run of the server.
    [[nodiscard]] const std::string& uuid() const { return uuid_; }
    /// False, and nothing happens, when the one in force is as new or newer.
    bool publish(std::shared_ptr<const ClusterConfig> next) {
        const std::lock_guard lock(mutex_);
        if (next->version() <= current_->version()) {
            return false;
        }
        current_ = std::move(next);
        return true;
    }

  private:
    const std::string uuid_;
    mutable std::mutex mutex_;
    std::shared_ptr<const ClusterConfig> current_;
};

}  // namespace kv::server
