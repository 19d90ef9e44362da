// The options of a run of front_end_latency. Defaults are those of the historic test.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bucket/bucket_config.h"
#include "dcp/producer_tasks.h"
#include "types/ids.h"

namespace kv::bench {

/// The background DCP client: none, one that steps continuously, or one that sleeps until it is
/// woken.
enum class DcpMode : uint8_t { None, Busy, Notify };

/// The documents that the client finds when it opens its streams: none, because it opens them
/// before the first Add; or all documents, which it receives during the phases after Add (a
/// rebalance), or before those phases begin, alone.
enum class Backlog : uint8_t { None, Beside, Alone };

struct LatencyOptions {
    size_t items{100'000};
    size_t valueSize{100};
    BucketType bucket{BucketType::Persistent};
    DcpMode dcp{DcpMode::None};
    Backlog backlog{Backlog::None};
    uint16_t vbuckets{1};          ///< each with a stream
    uint16_t busyVbuckets{0};      ///< of them have documents; 0 = all
    uint16_t producerSlots{1024};  ///< number of vBuckets of which the producer can have streams
    uint32_t htSize{0};  ///< hash buckets of a vBucket; 0 = the choice of the engine's resizer
    size_t checkpointItems{500};   ///< items that close a checkpoint
    size_t maxCheckpoints{2};      ///< checkpoints of a vBucket, the open one included
    size_t bufferSize{1024};       ///< DCP flow-control buffer, bytes
    size_t acknowledgeAbove{512};  ///< the client acknowledges when it has read more than this
    std::chrono::microseconds snapshotInterval{
            dcp::kDefaultSnapshotInterval};  ///< of the snapshot task; 0 = historic
    bool probeGet{false};                    ///< two more passes of Get (latency_phases.h)
    unsigned drainSeconds{60};  ///< limit of the wait for the client after the last phase
    bool slices{false};         ///< answers a conductor instead of running
    std::string dataDir;        ///< persistent: empty = a temporary directory

    /// Returns the vBucket of a document: documents are distributed in rotation over the busy
    /// vBuckets, which are spread over all.
    [[nodiscard]] Vbid vbucketOf(size_t item) const {
        const size_t busy = busyVbuckets == 0 ? vbuckets : busyVbuckets;
        return Vbid{static_cast<uint16_t>(item % busy * vbuckets / busy)};
    }
    /// Number of documents of each vBucket.
    [[nodiscard]] std::vector<uint64_t> documentsByVbucket() const {
        std::vector<uint64_t> documents(vbuckets);
        for (size_t item = 0; item < items; ++item) {
            ++documents[vbucketOf(item).get()];
        }
        return documents;
    }
};

/// Parses the command line; empty if the process must exit with `exitCode`.
std::optional<LatencyOptions> parseLatencyOptions(int argc, char** argv, int& exitCode);

constexpr const char* toString(DcpMode mode) {
    return mode == DcpMode::None ? "none" : mode == DcpMode::Busy ? "busy" : "notify";
}

constexpr const char* toString(Backlog backlog) {
    return backlog == Backlog::None ? "none" : backlog == Backlog::Beside ? "beside" : "alone";
}

}  // namespace kv::bench
