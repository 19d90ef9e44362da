// ReplicationSet: the Replicators that the cluster map asks for: one for each node that has an
// active vBucket of which this node is to have a replica.
//
// follow() returns at once: a thread of its own ends the replicators that the map no longer wants
// and starts new ones; those that stay as they were go on undisturbed. What there is no memory or
// no thread for is tried again after a second. Bucket and executor outlive it. follow() and stats()
// from any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/cluster_config.h"
#include "server/replicator.h"

namespace kv::server {

class ReplicationSet {
  public:
    /// `login`: the user and password to log in with, where the nodes have users.
    ReplicationSet(Bucket& bucket, Executor& executor, ReplicationSource login);
    ReplicationSet(const ReplicationSet&) = delete;
    ReplicationSet& operator=(const ReplicationSet&) = delete;
    ~ReplicationSet();

    /// False, and nothing happens, when one as new or newer was followed before: whoever publishes
    /// them may be overtaken on his way here.
    bool follow(std::shared_ptr<const ClusterConfig> config);
    /// STAT replication: sums, and how many sources there are and how many are connected.
    [[nodiscard]] KeyValues stats() const;

  private:
    struct Source {
        std::string address;
        std::vector<bool> vbuckets;
        std::unique_ptr<Replicator> replicator;
    };

    void run();
    /// False when not all of it could be done; doing it again does the rest.
    bool tryApply(const ClusterConfig& config);
    void apply(const ClusterConfig& config);

    Bucket& bucket_;
    Executor& executor_;
    const ReplicationSource login_;

    mutable std::mutex mutex_;  ///< of all below
    std::condition_variable changed_;
    std::shared_ptr<const ClusterConfig> wanted_;  ///< not yet applied
    protocol::ConfigVersion version_;              ///< of the newest
    bool stopping_{false};
    std::vector<Source> sources_;  ///< changed by thread_ only
    std::thread thread_;
};

}  // namespace kv::server
