// ServerContext: what every front-end thread shares: the bucket, who may log in, the cluster map,
// the bounds.
//
// Built before the threads start and outlives them. Members without a comment are read-only from
// then on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bucket/bucket.h"
#include "server/buffer_ledger.h"
#include "server/cluster_config.h"
#include "server/front_end_stats.h"
#include "server/key_values.h"
#include "server/prefix_stats.h"
#include "server/settings.h"
#include "server/user_store.h"

namespace kv::dcp {
class DcpNode;
}

namespace kv::server {

class CommandTable;
class JobThread;
class StatCollector;

struct ServerContext {
    Bucket& bucket;
    const UserStore* users{nullptr};  ///< nullptr: nobody needs to log in
    PublishedConfig config;           ///< any thread
    ServerSettings settings;
    const CommandTable& commands;
    int64_t startedAt{0};  ///< seconds since the epoch

    std::vector<FrontEndStats*> threadStats;
    PrefixStats prefixes{};  ///< any thread
    KeyValues configStats;   ///< STAT config: flags, parameters, build switches
    /// Groups that other rooms add (persistence, DCP), by name; "" adds to the default group.
    std::vector<std::pair<std::string, StatSource>> statSources;
    /// Run by STAT reset after the server's own counters.
    std::vector<std::function<void()>> statResets;
    StatCollector* statCollector{
            nullptr};                ///< nullptr: groups are collected where they are asked for
    JobThread* bucketJobs{nullptr};  ///< nullptr: the same, for what changes the whole bucket

    /// How far a vBucket is on disk; empty where nothing is persisted.
    std::function<Seqno(Vbid)> persistedSeqno{};
    dcp::DcpNode* dcp{nullptr};  ///< nullptr: DCP is not served
    /// Told of every config that is published; must not block.
    std::function<void(std::shared_ptr<const ClusterConfig>)> onClusterConfig{};

    std::atomic<uint32_t> connections{0};
    std::atomic<uint64_t> acceptedConnections{0};
    std::atomic<uint64_t> rejectedConnections{0};
    BufferLedger buffers{};  ///< partial requests and unsent answers of all connections
};

}  // namespace kv::server
