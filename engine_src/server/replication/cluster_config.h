// ClusterConfig: the map of vBuckets to nodes that clients receive. At first it is the one-node
// map: all vBuckets are here. A manager may publish another (SET_CLUSTER_CONFIG), which is served
// unchanged.
//
// Threads: immutable once built, so any thread may read it. Clients replace "$HOST" with the
// address that they connected to.
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

/// The published text is no cluster config for this node; the message gives the reason.
class ClusterConfigError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

class ClusterConfig {
  public:
    /// Builds the one-node map: the smallest text that libcouchbase, the C++ SDK (Python, Node),
    /// gocb and the Java SDK accept. `uuid` is hexadecimal and identifies the run of the server.
    /// `tlsPort` 0 means that TLS is not served.
    ClusterConfig(std::string_view bucket, uint16_t vbuckets, uint16_t port, std::string_view uuid,
                  uint16_t tlsPort = 0);

    /// Parses a published config: its map must have `vbuckets` rows, and exactly one of its nodes
    /// must be `thisNode`. Throws ClusterConfigError.
    static ClusterConfig parse(std::string json, uint16_t vbuckets);

    [[nodiscard]] const std::string& json() const { return json_; }
    [[nodiscard]] protocol::ConfigVersion version() const { return version_; }

    /// HOST:PORT of every node, by its number in the map.
    [[nodiscard]] const std::vector<std::string>& servers() const { return servers_; }
    /// The port on which a node serves TLS; 0 if none.
    [[nodiscard]] uint16_t tlsPort(size_t server) const { return tlsPorts_[server]; }
    /// The number of this node.
    [[nodiscard]] size_t self() const { return self_; }
    /// The vBuckets that are active on `server` and replicas here.
    [[nodiscard]] std::vector<bool> replicatedFrom(size_t server) const;
    [[nodiscard]] bool isActiveHere(size_t vbucket) const {
        return map_[vbucket].front() == static_cast<int>(self_);
    }
    /// True if a majority is more than one node: the map has room for replicas, even if one is
    /// missing (-1).
    [[nodiscard]] bool hasReplicas() const { return replicas_; }

  private:
    ClusterConfig() = default;

    std::string json_;
    protocol::ConfigVersion version_{1, 1};
    std::vector<std::string> servers_;
    std::vector<uint16_t> tlsPorts_;  ///< by server
    size_t self_{0};
    std::vector<std::vector<int>>
            map_;  ///< by vBucket: the active node, then the replicas; -1 for none
    bool replicas_{false};
};

/// PublishedConfig: the current config. Threads: any.
class PublishedConfig {
  public:
    PublishedConfig(ClusterConfig first, std::string_view uuid)
        : uuid_(uuid), current_(std::make_shared<const ClusterConfig>(std::move(first))) {}

    [[nodiscard]] std::shared_ptr<const ClusterConfig> current() const {
        const std::lock_guard lock(mutex_);
        return current_;
    }
    /// Identifies this run of the server.
    [[nodiscard]] const std::string& uuid() const { return uuid_; }
    /// Returns false without any change unless the config is newer than the current one.
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
