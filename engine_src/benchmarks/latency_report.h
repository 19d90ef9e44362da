// The output of front_end_latency: the historic table for people (stderr), one JSON document for
// programs (stdout).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/background_dcp_client.h"
#include "benchmarks/latency_options.h"
#include "benchmarks/latency_phases.h"

namespace kv::bench {

struct LatencyReport {
    LatencyOptions options;
    std::vector<std::pair<std::string, PhaseSummary>> phases;
    std::optional<DcpCounts> dcp;
    /// Documents that the client had at the end of each phase.
    std::vector<std::pair<std::string, uint64_t>> received;
    /// Rate of the backlog to the client while nothing else ran (Backlog::Alone).
    std::optional<double> itemsPerSecond;
};

/// Median, 95 %, 99 % and standard deviation in µs, and each phase's shape up to its 99th
/// percentile as a sparkline of 32 bins.
std::string latencyTable(const LatencyReport& report);
/// {"tool":"front_end_latency","schema":1,...}; read by perfrunner.
std::string latencyJson(const LatencyReport& report);

}  // namespace kv::bench
