// ServerContext: what all front-end threads share: the bucket, the users, the cluster map, the
// limits.
//
// Threads and ownership: built before the threads start, and outlives them. Members without a
// comment are read-only from then on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bucket/bucket.h"
#include "server/connections/buffer_ledger.h"
#include "server/login/login_brake.h"
#include "server/login/user_store.h"
#include "server/replication/cluster_config.h"
#include "server/settings.h"
#include "server/stats/front_end_stats.h"
#include "server/stats/key_values.h"
#include "server/stats/prefix_stats.h"

namespace kv::dcp {
class DcpNode;
}

namespace kv::server {

class ClusterFence;
class CommandTable;
class JobThread;
class StatCollector;

struct ServerContext {
    Bucket& bucket;
    const UserStore* users{nullptr};  ///< nullptr: no login is needed
    PublishedConfig config;           ///< any thread
    ServerSettings settings;
    const CommandTable& commands;
    std::chrono::steady_clock::time_point startedAt{std::chrono::steady_clock::now()};

    std::vector<FrontEndStats*> threadStats;
    PrefixStats prefixes{};  ///< any thread
    KeyValues configStats;   ///< STAT config: flags, parameters, build switches
    /// Groups that other parts add (persistence, DCP), by name; "" adds to the default group.
    std::vector<std::pair<std::string, StatSource>> statSources;
    /// Run by STAT reset after the server's own counters are reset.
    std::vector<std::function<void()>> statResets;
    StatCollector* statCollector{nullptr};  ///< nullptr: groups are collected on the calling thread
    JobThread* bucketJobs{nullptr};         ///< nullptr: the same for changes of the whole bucket
    JobThread* storeReads{nullptr};         ///< nullptr: the same for reads from disk
    JobThread* keyLists{nullptr};           ///< nullptr: the same for searches of keys
    JobThread* handshakes{nullptr};         ///< nullptr: TLS is not served

    /// The persisted seqno of a vBucket; empty if nothing is persisted.
    std::function<Seqno(Vbid)> persistedSeqno{};
    dcp::DcpNode* dcp{nullptr};    ///< nullptr: DCP is not served
    ClusterFence* fence{nullptr};  ///< nullptr: cluster configs are not remembered
    /// Called for every config that is published; must not block.
    std::function<void(std::shared_ptr<const ClusterConfig>)> onClusterConfig{};

    LoginBrake loginBrake{settings.failedLoginsPerMinute};  ///< any thread

    std::atomic<uint32_t> connections{0};
    std::atomic<uint32_t> userConnections{0};  ///< of users who are not administrators
    std::atomic<uint64_t> acceptedConnections{0};
    std::atomic<uint64_t> rejectedConnections{0};
    BufferLedger buffers{};  ///< partial requests and unsent answers of all connections
    /// Bytes of the bucket's values that are part of unsent answers of all connections.
    std::atomic<size_t> unsentValues{0};
};

}  // namespace kv::server
