// The four timed phases of front_end_latency, in the historic order: Add all, Get all, Replace all,
// Delete all. With Backlog::Alone the client's transfer follows Add, as "dcp": one operation.
//
// The timed part: add and replace from the caller's bytes to the stored document (including
// allocation and copy), get up to the answer (dropping the value comes after the end stamp),
// delete. The operations' time (OpTime) is read before the start stamp: a front-end thread reads it
// once for all requests that it received together.
//
// --probe-get adds two passes after Get that show what a Get waits for: "get/line" finds its line
// of the hash table prefetched, as a pipelined request of the server does
// (server/connections/look_ahead.h); "get/cached" asks for one key repeatedly, so it waits for
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/latency_options.h"
#include "bucket/bucket.h"

namespace kv::bench {

struct PhaseTimes {
    std::string name;  ///< "add", "get", "replace", "delete"; "get/..." the probes; kTransfer
    std::vector<uint64_t> nanos;  ///< one per operation, in the order of the operations
};

struct LatencyDocument {
    std::string key;
    Vbid vbid;
};

/// The client's phase.
constexpr std::string_view kTransfer = "dcp";

/// LatencyPhases: the phases, one after the other, each in any number of parts. Threads: one, the
/// same for all calls. Ownership: the bucket outlives it.
class LatencyPhases {
  public:
    /// `transfer`: waits until the client has the backlog and returns how long that took; may
    /// throw.
    LatencyPhases(Bucket& bucket, const LatencyOptions& options,
                  std::function<std::chrono::nanoseconds()> transfer);

    struct Length {
        std::string name;
        size_t operations;
    };
    /// The length of each phase, in their order.
    [[nodiscard]] std::vector<Length> lengths() const;
    [[nodiscard]] bool done() const { return current_ == phases_.size(); }
    /// True if every document is there: Add is over.
    [[nodiscard]] bool added() const { return current_ > 0; }
    /// The current phase; not when done().
    [[nodiscard]] const std::string& current() const { return phases_[current_].name; }
    /// The remaining operations of the current phase; not when done().
    [[nodiscard]] size_t left() const { return phases_[current_].operations - position_; }
    /// Runs the next `count` (at most left()) operations of the current phase and returns their
    /// times, valid until take(); the last operation ends the phase. Throws std::runtime_error if
    /// an operation does not succeed, because the latency of a failure is meaningless.
    std::span<const uint64_t> advance(size_t count);
    /// Returns all times; call it once, when done().
    std::vector<PhaseTimes> take();

  private:
    struct Phase {
        std::string name;
        size_t operations;
        /// Times the operations [first, first + times.size()).
        std::function<void(size_t first, std::span<uint64_t> times)> run;
        std::vector<uint64_t> nanos;
    };

    std::vector<LatencyDocument> documents_;
    std::string value_;
    std::vector<Phase> phases_;
    size_t current_{0};
    size_t position_{0};
};

struct PhaseSummary {
    uint64_t count{0};
    double p50Us{0};
    double p95Us{0};
    double p99Us{0};
    double maxUs{0};
    double meanUs{0};
    double sdUs{0};                ///< sample standard deviation
    std::vector<uint64_t> sorted;  ///< nanoseconds
};

/// Percentile p is the element [n*p/100] of the sorted times, as in the historic test.
PhaseSummary summarise(std::vector<uint64_t> nanos);

}  // namespace kv::bench
