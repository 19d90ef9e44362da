// One run of front_end_latency: a bucket, the background DCP client, the phases, the report.
//
// Threads: one, the same for all.
#pragma once

#include <memory>
#include <string>

#include "benchmarks/background_dcp_client.h"
#include "benchmarks/latency_options.h"
#include "benchmarks/latency_phases.h"
#include "benchmarks/latency_report.h"
#include "bucket/bucket.h"
#include "executor/thread_executor.h"

namespace kv::bench {

/// A directory that is removed when the run is over.
class ScratchDir {
  public:
    /// `asked`: an existing directory, or one to be made, which stays; empty: a temporary one.
    explicit ScratchDir(const std::string& asked);
    ScratchDir(const ScratchDir&) = delete;
    ScratchDir& operator=(const ScratchDir&) = delete;
    ~ScratchDir();
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    bool own_;
};

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
    ScratchDir dir_;
    ThreadExecutor executor_;
    std::unique_ptr<Bucket> bucket_;
    LatencyPhases phases_;
    std::unique_ptr<BackgroundDcpClient> client_;
    std::vector<std::pair<std::string, uint64_t>> received_;
};

}  // namespace kv::bench
