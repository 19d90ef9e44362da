#include "server/stats/stats.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "allocators/allocator.h"
#include "options/selected/injected.h"
#include "server/stats/figures.h"
#include "server/version.h"
#include "types/contention.h"

namespace kv::server {

namespace {

/// A figure that its source cannot provide is omitted; 0 would be wrong.
void addIfKnown(KeyValues& out, std::string_view key, const std::optional<uint64_t>& value) {
    if (value) {
        addFigure(out, key, *value);
    }
}

uint64_t sum(const ServerContext& server, Counter FrontEndStats::*counter) {
    uint64_t total = 0;
    for (const auto* stats : server.threadStats) {
        total += (stats->*counter).get();
    }
    return total;
}

void addTraffic(KeyValues& out, const ServerContext& server) {
    const auto gets = sum(server, &FrontEndStats::gets);
    const auto hits = sum(server, &FrontEndStats::getHits);
    addFigure(out, "cmd_total", sum(server, &FrontEndStats::requests));
    addFigure(out, "cmd_get", gets);
    const auto sets = sum(server, &FrontEndStats::sets);
    addFigure(out, "cmd_set", sets);
    addFigure(out, "cmd_flush", sum(server, &FrontEndStats::flushes));
    const auto mutations = sets + sum(server, &FrontEndStats::otherMutations);
    addFigure(out, "cmd_total_gets", gets);
    addFigure(out, "cmd_total_sets", mutations);
    addFigure(out, "cmd_total_ops", gets + mutations);
    addFigure(out, "get_hits", hits);
    addFigure(out, "get_misses", gets - std::min(hits, gets));
    addFigure(out, "bytes_read", sum(server, &FrontEndStats::bytesRead));
    addFigure(out, "bytes_written", sum(server, &FrontEndStats::bytesWritten));
    addFigure(out, "conn_wakeups", sum(server, &FrontEndStats::wakeups));
    addFigure(out, "conn_yields", sum(server, &FrontEndStats::yields));
    addFigure(out, "conn_slow_readers", sum(server, &FrontEndStats::slowReaders));
    addFigure(out, "conn_buffer_limit_closes", sum(server, &FrontEndStats::bufferLimitCloses));
    addFigure(out, "conn_overdue_closes", sum(server, &FrontEndStats::overdueCloses));
    addFigure(out, "auth_errors", sum(server, &FrontEndStats::authErrors));
}

/// The work done by a build with an injected fault, and the time of this reading.
template <class Fault = options::SelectedInjected>
void addInjected(KeyValues& out) {
    if constexpr (requires { Fault::burnt(); }) {
        addFigure(out, "injected_burnt_ns", Fault::burnt().count());
        addFigure(out, "injected_clock_ns", options::steadyTime().count());
    }
}

KeyValues defaultGroup(ServerContext& server) {
    KeyValues out;
    addFigure(out, "pid", ::getpid());
    addFigure(out, "uptime",
              std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() -
                                                               server.startedAt)
                      .count());
    addFigure(out, "time", std::time(nullptr));
    addFigure(out, "version", kVersion);
    addFigure(out, "threads", server.threadStats.size());
    addFigure(out, "curr_connections", server.connections.load());
    addFigure(out, "total_connections", server.acceptedConnections.load());
    addFigure(out, "rejected_conns", server.rejectedConnections.load());
    addFigure(out, "max_connections", server.settings.maxConnections);
    addFigure(out, "conn_buffered_bytes", server.buffers.held());
    addTraffic(out, server);
    const auto& bucket = server.bucket;
    const auto stats = bucket.stats();
    addFigure(out, "bucket_name", bucket.name());
    addFigure(out, "bucket_type", toString(bucket.type()));
    addFigure(out, "vb_count", bucket.vbucketCount());
    addFigure(out, "curr_items", stats.items);
    addFigure(out, "vb_active_num_non_resident", stats.nonResident);
    addFigure(out, "ep_tombstones", stats.tombstones);
    addFigure(out, "ep_queue_size", bucket.itemsToPersist() + bucket.statesToPersist());
    addFigure(out, "ep_tmp_oom_errors", bucket.counters().tmpOomErrors.load());
    addFigure(out, "ep_oom_errors", bucket.counters().oomErrors.load());
    addFigure(out, "ep_expired_access", bucket.counters().expiredOnAccess.load());
    addFigure(out, "ep_expired_pager", bucket.counters().expiredByPass.load());
    addInjected(out);
    return out;
}

KeyValues memoryGroup(ServerContext& server) {
    KeyValues out;
    // Fragmentation divides these readings by each other, so they are taken back to back.
    const auto heap = allocator::stats();
    const auto used = server.bucket.memory().precise();
    const auto& bucket = server.bucket;
    const auto stats = bucket.stats();
    addFigure(out, "mem_used", used);
    addFigure(out, "mem_used_estimate", bucket.memory().estimate());
    addFigure(out, "ep_max_size", bucket.memory().quota());
    addFigure(out, "ep_mem_low_wat", bucket.lowWatermarkBytes());
    addFigure(out, "ep_mem_high_wat", bucket.highWatermarkBytes());
    addFigure(out, "ep_mutation_mem_threshold", bucket.mutationThresholdBytes());
    addFigure(out, "ep_kv_size", stats.kvSize);
    addFigure(out, "ep_value_size", stats.valueSize);
    addFigure(out, "ep_overhead", stats.overhead);
    addFigure(out, "ep_blob_num", stats.blobs);
    addFigure(out, "ep_storedval_num", stats.storedValues);
    addFigure(out, "ep_checkpoint_memory", stats.checkpointMemory);
    addFigure(out, "ep_ht_memory", stats.hashTableMemory);
    addIfKnown(out, "total_allocated_bytes", heap.allocated);
    addIfKnown(out, "total_active_bytes", heap.active);
    addIfKnown(out, "total_metadata_bytes", heap.metadata);
    addIfKnown(out, "total_resident_bytes", heap.resident);
    addIfKnown(out, "total_heap_bytes", heap.mapped);
    addIfKnown(out, "total_retained_bytes", heap.retained);
    addIfKnown(out, "total_metadata_thp", heap.metadataThp);
    if (heap.active && heap.allocated) {
        addFigure(out, "total_fragmentation_bytes",
                  *heap.active - std::min(*heap.active, *heap.allocated));
    }
    return out;
}

KeyValues allocatorGroup(ServerContext&) {
    KeyValues out;
    addFigure(out, "name", allocator::name());
    addFigure(out, "version", allocator::version());
    addFigure(out, "conf_env", allocator::confEnv());
    for (auto& option : allocator::options()) {
        out.push_back(std::move(option));
    }
    return out;
}

KeyValues timingsGroup(ServerContext& server) {
    KeyValues out;
    addFigure(out, "sample_every", server.settings.timingSample);
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
            addFigure(out, protocol::toString(opcode), merged->toJson());
        }
    }
    return out;
}

KeyValues hashGroup(ServerContext& server) {
    KeyValues out;
    const auto stats = server.bucket.stats();
    addFigure(out, "stripes", stats.htStatsStripes);
    addFigure(out, "stats_bytes_per_vbucket", stats.htStatsBytesPerVb);
    addFigure(out, "memory", stats.hashTableMemory);
    addFigure(out, "bytes_per_vbucket",
              stats.hashTableMemory / std::max<size_t>(1, server.bucket.vbucketCount()));
    addFigure(out, "items", stats.items);
    addFigure(out, "tombstones", stats.tombstones);
    addFigure(out, "resizes", server.bucket.counters().hashResizes.load());
    return out;
}

KeyValues contentionGroup(ServerContext& server) {
    KeyValues out;
    for (const auto& [name, counter] : {std::pair{"hash_lock", &contention.hashLocks},
                                        std::pair{"log_lock", &contention.logLocks},
                                        std::pair{"listener_lock", &contention.listenerLocks}}) {
        addFigure(out, fmt::format("{}_waits", name),
                  counter->count.load(std::memory_order_relaxed));
        addFigure(out, fmt::format("{}_wait_ns", name),
                  counter->nanos.load(std::memory_order_relaxed));
    }
    addFigure(out, "memory_merges", server.bucket.memory().merges());
    addFigure(out, "stat_calls", contention.stats.count.load(std::memory_order_relaxed));
    addFigure(out, "stat_ns", contention.stats.nanos.load(std::memory_order_relaxed));
    return out;
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

void StatJob::run() noexcept {
    try {
        answer_ = collectStats(server_, group_);
    } catch (const std::bad_alloc&) {
        answer_ = {protocol::Status::kEtmpfail, {}};
    }
}

std::shared_ptr<StatJob> StatCollector::ask(std::string_view group, std::shared_ptr<Waker> waker,
                                            std::string_view user) {
    auto job = std::make_shared<StatJob>(server_, group, std::move(waker));
    thread_.ask(job, user);
    return job;
}

}  // namespace kv::server
