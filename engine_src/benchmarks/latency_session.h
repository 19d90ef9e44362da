// One run of front_end_latency: a bucket, the background DCP client, the phases, the report.
//
// Threads: one, the same for all.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "benchmarks/background_dcp_client.h"
#include "benchmarks/latency_options.h"
#include "benchmarks/latency_phases.h"
#include "benchmarks/latency_report.h"
#include "bucket/bucket.h"
#include "executor/thread_executor.h"
#include "persistence/temp_dir.h"

namespace kv::bench {

class LatencySession {
  public:
    explicit LatencySession(const LatencyOptions& options);

    [[nodiscard]] const LatencyPhases& phases() const { return phases_; }
    /// As LatencyPhases::advance. The client starts with the first operation, or with the first
    /// after Add if it is to find a backlog.
    std::span<const uint64_t> advance(size_t count);
    /// Call it once when the phases are done: waits until the client has everything. Throws
    /// std::runtime_error if it does not get it.
    LatencyReport finish();

  private:
    std::chrono::nanoseconds transfer();

    const LatencyOptions options_;
    std::optional<TempDir> scratch_;  ///< of the store, unless the options name a directory
    ThreadExecutor executor_;
    std::unique_ptr<Bucket> bucket_;
    LatencyPhases phases_;
    std::unique_ptr<BackgroundDcpClient> client_;
    std::vector<std::pair<std::string, uint64_t>> received_;
};

}  // namespace kv::bench
