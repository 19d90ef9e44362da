// ReplicationSet: the Replicators that the cluster map requires: one for each node that has an
// active vBucket of which this node has a replica.
//
// Threads: follow() and stats() may be called from any thread. follow() does not wait: a separate
// thread ends the replicators that the map no longer needs and starts new ones. Replicators whose
// vBuckets are the same continue. If memory or a thread is lacking, it tries again after a second.
// Ownership: bucket and executor outlive it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/replication/cluster_config.h"
#include "server/replication/replicator.h"

namespace kv::server {

class ReplicationSet {
  public:
    /// `login`: user, password and TLS for the nodes, if they are used.
    ReplicationSet(Bucket& bucket, Executor& executor, ReplicationSource login);
    ReplicationSet(const ReplicationSet&) = delete;
    ReplicationSet& operator=(const ReplicationSet&) = delete;
    ~ReplicationSet();

    /// Returns false without any change unless the config is newer than all before it: concurrent
    /// publishers may call this in another order.
    bool follow(std::shared_ptr<const ClusterConfig> config);
    /// STAT replication: sums, the number of sources, and how many of them are connected.
    [[nodiscard]] KeyValues stats() const;

  private:
    struct Source {
        std::string address;
        std::vector<bool> vbuckets;
        std::unique_ptr<Replicator> replicator;
    };

    void run();
    /// HOST:PORT to connect to, with the node's TLS port (kvSSL) if TLS is used.
    [[nodiscard]] std::string addressOf(const ClusterConfig& config, size_t server) const;
    /// Returns false if something failed; another call does the rest.
    bool tryApply(const ClusterConfig& config);
    void apply(const ClusterConfig& config);

    Bucket& bucket_;
    Executor& executor_;
    const ReplicationSource login_;

    mutable std::mutex mutex_;  ///< guards everything below
    std::condition_variable changed_;
    std::shared_ptr<const ClusterConfig> wanted_;  ///< not yet applied
    protocol::ConfigVersion version_;              ///< of the newest config
    bool stopping_{false};
    std::vector<Source> sources_;  ///< changed only by thread_
    std::thread thread_;
};

}  // namespace kv::server
