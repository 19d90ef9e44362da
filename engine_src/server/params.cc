#include "server/params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <type_traits>
#include <utility>

#include "types/parse_number.h"

namespace kv::server {

namespace {

template <class Number>
Number parse(std::string_view text, Number low, Number high, std::string_view range) {
    if (const auto value = parseNumber(text, low, high)) {
        return *value;
    }
    throw ParamError(fmt::format("'{}' is not a number in {}", text, range));
}

/// Returns a function that finds a value in the parameters, by the members that lead to it.
template <class... Members>
auto at(Members... members) {
    return [=](auto& params) -> auto& {
        return (params.*....*members);  // params.*first.*second
    };
}

/// Makes a parameter whose number times `unit` is stored at `place`.
template <class Place>
Param integer(std::string name, Place place, uint64_t low, uint64_t high, std::string description,
              uint64_t unit = 1) {
    auto range = fmt::format("{}..{}", low, high);
    return {std::move(name), range, std::move(description),
            [=](EngineParams& params, std::string_view text) {
                auto& value = place(params);
                value = static_cast<std::remove_reference_t<decltype(value)>>(
                        parse(text, low, high, range) * unit);
            },
            [=](const EngineParams& params) { return std::to_string(place(params) / unit); }};
}

/// Makes a parameter in percent, which is stored as a share.
template <class Place>
Param percent(std::string name, Place place, std::string description) {
    return {std::move(name), "1..100", std::move(description),
            [=](EngineParams& params, std::string_view text) {
                place(params) = parse(text, 1.0, 100.0, "1..100") / 100.0;
            },
            [=](const EngineParams& params) { return fmt::format("{:g}", place(params) * 100.0); }};
}

/// Makes a parameter that is a period in milliseconds.
template <class Place>
Param period(std::string name, Place place, uint64_t low, std::string description) {
    using std::chrono::milliseconds;
    constexpr uint64_t kDay = 86'400'000;
    auto range = fmt::format("{}..{}", low, kDay);
    return {std::move(name), range, std::move(description),
            [=](EngineParams& params, std::string_view text) {
                place(params) = milliseconds(parse(text, low, kDay, range));
            },
            [=](const EngineParams& params) {
                return std::to_string(
                        std::chrono::duration_cast<milliseconds>(place(params)).count());
            }};
}

/// Makes a parameter that is one of several words.
template <class Place>
Param choice(std::string name, Place place, std::vector<std::string> values,
             std::string description) {
    auto range = fmt::format("{}", fmt::join(values, "|"));
    return {std::move(name), range, std::move(description),
            [=](EngineParams& params, std::string_view text) {
                if (std::find(values.begin(), values.end(), text) == values.end()) {
                    throw ParamError(fmt::format("'{}' is not one of {}", text, range));
                }
                place(params) = text;
            },
            [=](const EngineParams& params) { return place(params); }};
}

std::vector<Param> makeTable() {
    using E = EngineParams;
    using S = ServerSettings;
    using B = BucketConfig;
    using C = CheckpointConfig;
    using R = RocksConfig;
    using F = FlusherConfig;
    using L = dcp::BackfillLimits;
    using N = dcp::ConnectionLimits;
    return {
            integer("max_connections", at(&E::server, &S::maxConnections), 1, 1'000'000,
                    "connections served at a time, not counting administrators; more are closed "
                    "at once"),
            integer("reserved_connections", at(&E::server, &S::reservedConnections), 0, 10'000,
                    "further connections, for administrators and logins"),
            integer("read_buffer_kb", at(&E::server, &S::readBufferBytes), 4, 16'384,
                    "bytes (KiB) read from a connection at a time", 1024),
            integer("max_requests_per_turn", at(&E::server, &S::maxRequestsPerTurn), 1, 1'000'000,
                    "requests of one connection that are executed before those of others"),
            integer("max_unsent_kb", at(&E::server, &S::maxUnsentBytes), 1, 1'048'576,
                    "answers (KiB) a client may leave unread before it is not served any more",
                    1024),
            integer("max_buffered_mb", at(&E::server, &S::maxBufferedBytes), 1, 1'048'576,
                    "memory (MiB) of partial requests and unsent answers of all connections",
                    1 << 20),
            integer("idle_partial_s", at(&E::server, &S::idlePartialSeconds), 1, 86'400,
                    "seconds without a byte after which a half-sent request ends its connection"),
            integer("frame_deadline_s", at(&E::server, &S::frameDeadlineSeconds), 1, 86'400,
                    "seconds in which a request must arrive as a whole"),
            integer("login_timeout_s", at(&E::server, &S::loginSeconds), 1, 86'400,
                    "seconds after which a connection that has not logged in is closed"),
            integer("max_before_login_kb", at(&E::server, &S::maxBeforeLoginBytes), 4, 16'384,
                    "largest request (KiB), and unsent answers, of a connection that has not "
                    "logged in",
                    1024),
            integer("persist_wait_s", at(&E::server, &S::persistWaitSeconds), 1, 3600,
                    "seconds that SEQNO_PERSISTENCE waits for the disk"),
            integer("dcp_idle_timeout_s", at(&E::server, &S::dcpIdleSeconds), 1, 86'400,
                    "seconds without reading after which a DCP connection is closed, with or "
                    "without no-ops"),
            integer("auth_delay_ms", at(&E::server, &S::authDelayMillis), 0, 60'000,
                    "delay of the answer to a failed login"),
            integer("max_failed_logins", at(&E::server, &S::maxFailedLogins), 1, 1000,
                    "failed logins in a row that end a connection"),
            integer("failed_logins_per_minute", at(&E::server, &S::failedLoginsPerMinute), 1,
                    1'000'000,
                    "failed logins of a user from one address that are answered, after a burst of "
                    "10; ten times as many of all users from it"),
            integer("timing_sample", at(&E::server, &S::timingSample), 0, 1'000'000,
                    "one of this many operations is timed for STAT timings; 0 = none"),
            integer("ht_size", at(&E::bucket, &B::htSize), 1, 100'000'000,
                    "initial and smallest number of hash buckets of a vBucket"),
            integer("ht_locks", at(&E::bucket, &B::htLocks), 1, 65'536,
                    "locks of a vBucket's hash table"),
            integer("max_item_size", at(&E::bucket, &B::maxValueBytes), 1, 20u << 20,
                    "largest value in bytes"),
            percent("mem_low_wat_pct", at(&E::bucket, &B::lowWatermark),
                    "low watermark in percent of the quota"),
            percent("mem_high_wat_pct", at(&E::bucket, &B::highWatermark),
                    "high watermark in percent of the quota"),
            percent("mutation_mem_threshold_pct", at(&E::bucket, &B::mutationThreshold),
                    "share of the quota above which mutations are refused"),
            integer("ephemeral_purge_age_s", at(&E::bucket, &B::ephemeralPurgeAgeS), 0, 31'536'000,
                    "age in seconds at which tombstones of an ephemeral bucket are freed"),
            integer("persistent_purge_age_s", at(&E::bucket, &B::persistentPurgeAgeS), 0,
                    31'536'000,
                    "age in seconds at which stored tombstones of a persistent bucket are removed"),
            integer("expiry_pass_s", at(&E::expiryPassSeconds), 1, 86'400,
                    "seconds between two passes that delete expired documents"),
            integer("ht_resize_ms", at(&E::hashResizeMillis), 10, 3'600'000,
                    "milliseconds between two checks of the sizes of the hash tables"),
            integer("dcp_snapshot_interval_us", at(&E::dcpSnapshotIntervalUs), 0, 10'000'000,
                    "least time between two DCP snapshots of a connection under load; 0 = none"),
            integer("dcp_backfill_idle_s", at(&E::backfills, &L::idleSeconds), 1, 86'400,
                    "seconds after which a backfill that its client does not read gives back what "
                    "it holds"),
            integer("dcp_backfill_age_s", at(&E::backfills, &L::ageSeconds), 1, 86'400,
                    "seconds after which a backfill continues with a newer view of the documents"),
            integer("dcp_backfills_per_connection", at(&E::backfills, &L::perConnection), 1, 65'536,
                    "backfills of one DCP connection that are open at a time"),
            integer("dcp_backfills_per_node", at(&E::backfills, &L::perNode), 1, 1'000'000,
                    "the same of all DCP connections"),
            integer("dcp_connections_per_node", at(&E::dcpConnections, &N::perNode), 1, 65'536,
                    "DCP connections of all users"),
            integer("dcp_connections_per_user", at(&E::dcpConnections, &N::perUser), 1, 65'536,
                    "DCP connections of one user"),
            integer("ephemeral_purge_interval_s", at(&E::tombstonePurgeSeconds), 1, 86'400,
                    "seconds between two purges of tombstones"),
            integer("chk_max_items", at(&E::bucket, &B::checkpoint, &C::maxItems), 1, 100'000'000,
                    "live items that close a checkpoint"),
            integer("max_checkpoints", at(&E::bucket, &B::checkpoint, &C::maxCheckpoints), 2,
                    10'000'000, "checkpoints of a vBucket, the open one included"),
            period("chk_period_ms", at(&E::bucket, &B::checkpoint, &C::period), 1,
                   "age in milliseconds that closes a checkpoint with items"),
            period("chk_remover_ms", at(&E::bucket, &B::checkpoint, &C::removerPeriod), 1,
                   "milliseconds between two removals of checkpoints nobody needs"),
            choice("fsync", at(&E::fsync), {"never", "interval", "commit"},
                   "when stored mutations begin to survive the loss of power, not only the "
                   "death of the process: at a clean stop, every fsync_interval_ms, at every "
                   "commit"),
            period("fsync_interval_ms", at(&E::fsyncInterval), 1,
                   "time between two syncs of the stores with fsync=interval"),
            integer("rocksdb_write_buffer_mb", at(&E::rocks, &R::writeBufferBytes), 1, 65'536,
                    "memory tables of a shard together, MiB", 1 << 20),
            integer("rocksdb_block_cache_mb", at(&E::rocks, &R::blockCacheBytes), 0, 1'048'576,
                    "block cache of a shard, MiB", 1 << 20),
            choice("rocksdb_compression", at(&E::rocks, &R::compression),
                   {"none", "lz4", "snappy", "zstd"}, "compression of the store's files"),
            integer("flusher_batch_split_trigger", at(&E::flusher, &F::batchItems), 1,
                    1'000'000'000, "items of one transaction, in whole checkpoints"),
            period("flusher_interval_ms", at(&E::flusher, &F::interval), 0,
                   "shortest time between two passes over the changed vBuckets"),
            period("flusher_retry_ms", at(&E::flusher, &F::retryDelay), 0,
                   "wait after a failed transaction"),
    };
}

/// Levenshtein distance between a misspelt name and a known one.
size_t distance(std::string_view left, std::string_view right) {
    std::vector<size_t> row(right.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= left.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= right.size(); ++j) {
            const size_t replaced = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

}  // namespace

const std::vector<Param>& paramTable() {
    static const std::vector<Param> kTable = makeTable();
    return kTable;
}

void applyParam(EngineParams& params, std::string_view setting) {
    const auto equals = setting.find('=');
    if (equals == std::string_view::npos) {
        throw ParamError(fmt::format("'{}': expected name=value", setting));
    }
    const auto name = setting.substr(0, equals);
    const auto& table = paramTable();
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Param& param) { return param.name == name; });
    if (found == table.end()) {
        const auto nearest = std::min_element(
                table.begin(), table.end(), [&](const Param& left, const Param& right) {
                    return distance(name, left.name) < distance(name, right.name);
                });
        throw ParamError(fmt::format("unknown parameter '{}'; nearest: {}", name, nearest->name));
    }
    try {
        found->set(params, setting.substr(equals + 1));
    } catch (const ParamError& error) {
        throw ParamError(fmt::format("parameter {}: {}", name, error.what()));
    }
}

}  // namespace kv::server
