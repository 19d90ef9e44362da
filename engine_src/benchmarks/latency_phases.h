// The four timed phases of front_end_latency, in the historic order: Add all, Get all, Replace all,
// Delete all.
//
// What is timed: add and replace from the caller's bytes to the stored document (allocation and
// copy included), get up to the answer (dropping the value comes after the end stamp), delete.
// The operations' time (OpTime) is read before the start stamp: a front-end thread reads it once
// for all requests that it received together.
//
// --probe-get adds two passes after Get that tell what a Get waits for: "get/line" finds its line
// of the hash table prefetched, as a pipelined request of the server does (server/look_ahead.h),
// "get/cached" asks for one key again and again, so that it waits for nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/latency_options.h"
#include "bucket/bucket.h"

namespace kv::bench {

struct PhaseTimes {
    std::string name;             ///< "add", "get", "replace", "delete"; "get/..." the probes
    std::vector<uint64_t> nanos;  ///< one an operation, in the order of the operations
};

/// Runs all phases on vBucket 0 from the calling thread. Throws std::runtime_error when an
/// operation does not succeed: a latency of failures is none.
std::vector<PhaseTimes> runPhases(Bucket& bucket, const LatencyOptions& options);

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
