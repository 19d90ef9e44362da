#include "server/stats/stats.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>

#include "allocators/allocator.h"
#include "options/selected/injected.h"
#include "server/stats/vbucket_stats.h"
#include "server/version.h"
#include "types/contention.h"

namespace kv::server {

namespace {

class Group {
  public:
    template <class Value>
    void add(std::string_view key, const Value& value) {
        values_.emplace_back(key, fmt::format("{}", value));
    }
    /// A figure that its source cannot provide is omitted; 0 would be wrong.
    void addIfKnown(std::string_view key, const std::optional<uint64_t>& value) {
        if (value) {
            add(key, *value);
        }
    }
    KeyValues take() { return std::move(values_); }

  private:
    KeyValues values_;
};

uint64_t sum(const ServerContext& server, Counter FrontEndStats::*counter) {
    uint64_t total = 0;
    for (const auto* stats : server.threadStats) {
        total += (stats->*counter).get();
    }
    return total;
}

void addTraffic(Group& out, const ServerContext& server) {
    const auto gets = sum(server, &FrontEndStats::gets);
    const auto hits = sum(server, &FrontEndStats::getHits);
    out.add("cmd_total", sum(server, &FrontEndStats::requests));
    out.add("cmd_get", gets);
    const auto sets = sum(server, &FrontEndStats::sets);
    out.add("cmd_set", sets);
    out.add("cmd_flush", sum(server, &FrontEndStats::flushes));
    const auto mutations = sets + sum(server, &FrontEndStats::otherMutations);
    out.add("cmd_total_gets", gets);
    out.add("cmd_total_sets", mutations);
    out.add("cmd_total_ops", gets + mutations);
    out.add("get_hits", hits);
    out.add("get_misses", gets - std::min(hits, gets));
    out.add("bytes_read", sum(server, &FrontEndStats::bytesRead));
    out.add("bytes_written", sum(server, &FrontEndStats::bytesWritten));
    out.add("conn_wakeups", sum(server, &FrontEndStats::wakeups));
    out.add("conn_yields", sum(server, &FrontEndStats::yields));
    out.add("conn_slow_readers", sum(server, &FrontEndStats::slowReaders));
    out.add("conn_buffer_limit_closes", sum(server, &FrontEndStats::bufferLimitCloses));
    out.add("conn_overdue_closes", sum(server, &FrontEndStats::overdueCloses));
    out.add("auth_errors", sum(server, &FrontEndStats::authErrors));
}

/// The work done by a build with an injected fault, and the time of this reading.
template <class Fault = options::SelectedInjected>
void addInjected(Group& out) {
    if constexpr (requires { Fault::burnt(); }) {
        out.add("injected_burnt_ns", Fault::burnt().count());
        out.add("injected_clock_ns", options::steadyTime().count());
    }
}

KeyValues defaultGroup(ServerContext& server) {
    Group out;
    out.add("pid", ::getpid());
    out.add("uptime", std::chrono::duration_cast<std::chrono::seconds>(
                              std::chrono::steady_clock::now() - server.startedAt)
                              .count());
    out.add("time", std::time(nullptr));
    out.add("version", kVersion);
    out.add("threads", server.threadStats.size());
    out.add("curr_connections", server.connections.load());
    out.add("total_connections", server.acceptedConnections.load());
    out.add("rejected_conns", server.rejectedConnections.load());
    out.add("max_connections", server.settings.maxConnections);
    out.add("conn_buffered_bytes", server.buffers.held());
    addTraffic(out, server);
    const auto& bucket = server.bucket;
    const auto stats = bucket.stats();
    out.add("bucket_name", bucket.name());
    out.add("bucket_type", toString(bucket.type()));
    out.add("vb_count", bucket.vbucketCount());
    out.add("curr_items", stats.items);
    out.add("vb_active_num_non_resident", stats.nonResident);
    out.add("ep_tombstones", stats.tombstones);
    out.add("ep_queue_size", bucket.itemsToPersist() + bucket.statesToPersist());
    out.add("ep_tmp_oom_errors", bucket.counters().tmpOomErrors.load());
    out.add("ep_oom_errors", bucket.counters().oomErrors.load());
    out.add("ep_expired_access", bucket.counters().expiredOnAccess.load());
    out.add("ep_expired_pager", bucket.counters().expiredByPass.load());
    addInjected(out);
    return out.take();
}

KeyValues memoryGroup(ServerContext& server) {
    Group out;
    // Fragmentation divides these readings by each other, so they are taken back to back.
    const auto heap = allocator::stats();
    const auto used = server.bucket.memory().precise();
    const auto& bucket = server.bucket;
    const auto stats = bucket.stats();
    out.add("mem_used", used);
    out.add("mem_used_estimate", bucket.memory().estimate());
    out.add("ep_max_size", bucket.memory().quota());
    out.add("ep_mem_low_wat", bucket.lowWatermarkBytes());
    out.add("ep_mem_high_wat", bucket.highWatermarkBytes());
    out.add("ep_mutation_mem_threshold", bucket.mutationThresholdBytes());
    out.add("ep_kv_size", stats.kvSize);
    out.add("ep_value_size", stats.valueSize);
    out.add("ep_overhead", stats.overhead);
    out.add("ep_blob_num", stats.blobs);
    out.add("ep_storedval_num", stats.storedValues);
    out.add("ep_checkpoint_memory", stats.checkpointMemory);
    out.add("ep_ht_memory", stats.hashTableMemory);
    out.addIfKnown("total_allocated_bytes", heap.allocated);
    out.addIfKnown("total_active_bytes", heap.active);
    out.addIfKnown("total_metadata_bytes", heap.metadata);
    out.addIfKnown("total_resident_bytes", heap.resident);
    out.addIfKnown("total_heap_bytes", heap.mapped);
    out.addIfKnown("total_retained_bytes", heap.retained);
    out.addIfKnown("total_metadata_thp", heap.metadataThp);
    if (heap.active && heap.allocated) {
        out.add("total_fragmentation_bytes",
                *heap.active - std::min(*heap.active, *heap.allocated));
    }
    return out.take();
}

KeyValues allocatorGroup(ServerContext&) {
    Group out;
    out.add("name", allocator::name());
    out.add("version", allocator::version());
    out.add("conf_env", allocator::confEnv());
    auto values = out.take();
    for (auto& option : allocator::options()) {
        values.push_back(std::move(option));
    }
    return values;
}

KeyValues timingsGroup(ServerContext& server) {
    Group out;
    out.add("sample_every", server.settings.timingSample);
    for (unsigned code = 0; code < 256; ++code) {
        const auto opcode = static_cast<protocol::Opcode>(code);
        std::unique_ptr<LatencyHistogram> merged;
        for (const auto* stats : server.threadStats) {
            if (const auto* timing = stats->timing(opcode); timing != nullptr) {
                merged = merged ? std::move(merged) : std::make_unique<LatencyHistogram>();
                merged->add(*timing);
            }
        }
        if (merged && merged->count() != 0) {
            out.add(protocol::toString(opcode), merged->toJson());
        }
    }
    return out.take();
}

KeyValues hashGroup(ServerContext& server) {
    Group out;
    const auto stats = server.bucket.stats();
    out.add("stripes", stats.htStatsStripes);
    out.add("stats_bytes_per_vbucket", stats.htStatsBytesPerVb);
    out.add("memory", stats.hashTableMemory);
    out.add("bytes_per_vbucket",
            stats.hashTableMemory / std::max<size_t>(1, server.bucket.vbucketCount()));
    out.add("items", stats.items);
    out.add("tombstones", stats.tombstones);
    out.add("resizes", server.bucket.counters().hashResizes.load());
    return out.take();
}

KeyValues contentionGroup(ServerContext& server) {
    Group out;
    for (const auto& [name, counter] : {std::pair{"hash_lock", &contention.hashLocks},
                                        std::pair{"log_lock", &contention.logLocks},
                                        std::pair{"listener_lock", &contention.listenerLocks}}) {
        out.add(fmt::format("{}_waits", name), counter->count.load(std::memory_order_relaxed));
        out.add(fmt::format("{}_wait_ns", name), counter->nanos.load(std::memory_order_relaxed));
    }
    out.add("memory_merges", server.bucket.memory().merges());
    out.add("stat_calls", contention.stats.count.load(std::memory_order_relaxed));
    out.add("stat_ns", contention.stats.nanos.load(std::memory_order_relaxed));
    return out.take();
}

KeyValues uuidGroup(ServerContext& server) {
    return {{"uuid", server.config.uuid()}};
}

KeyValues detailDump(ServerContext& server) {
    KeyValues values{{"detailed", server.prefixes.dump()}};
    if (auto others = server.prefixes.others(); !others.empty()) {
        values.emplace_back("detailed_others", std::move(others));
    }
    return values;
}

KeyValues detailOn(ServerContext& server) {
    server.prefixes.turn(true);
    return {};
}

KeyValues detailOff(ServerContext& server) {
    server.prefixes.turn(false);
    return {};
}

KeyValues configGroup(ServerContext& server) {
    return server.configStats;
}

KeyValues resetGroup(ServerContext& server) {
    for (auto* stats : server.threadStats) {
        stats->reset();
    }
    server.bucket.resetStats();
    server.prefixes.reset();
    contention.reset();
    for (const auto& reset : server.statResets) {
        reset();
    }
    return {};
}

struct Named {
    std::string_view name;
    KeyValues (*collect)(ServerContext&);
};
constexpr Named kGroups[] = {{"", defaultGroup},
                             {"memory", memoryGroup},
                             {"allocator", allocatorGroup},
                             {"timings", timingsGroup},
                             {"hash", hashGroup},
                             {"config", configGroup},
                             {"settings", configGroup},
                             {"uuid", uuidGroup},
                             {"reset", resetGroup},
                             {"detail dump", detailDump},
                             {"detail on", detailOn},
                             {"detail off", detailOff},
                             {"contention", contentionGroup}};

StatAnswer collect(ServerContext& server, std::string_view group) {
    if (auto answer = vbucketStats(server, group)) {
        return *std::move(answer);
    }
    StatAnswer answer{protocol::Status::kKeyEnoent, {}};
    for (const auto& known : kGroups) {
        if (known.name == group) {
            answer = {protocol::Status::kSuccess, known.collect(server)};
        }
    }
    for (const auto& [name, source] : server.statSources) {
        if (name == group) {
            auto more = source();
            answer.status = protocol::Status::kSuccess;
            answer.values.insert(answer.values.end(), std::make_move_iterator(more.begin()),
                                 std::make_move_iterator(more.end()));
        }
    }
    return answer;
}

}  // namespace

StatAnswer collectStats(ServerContext& server, std::string_view group) {
    const auto start = std::chrono::steady_clock::now();
    auto answer = collect(server, group);
    contention.stats.add(std::chrono::steady_clock::now() - start);
    return answer;
}

}  // namespace kv::server
