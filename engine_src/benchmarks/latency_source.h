// The phases of front_end_latency as slices of operations.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/latency_session.h"
#include "slices/slice_server.h"

namespace kv::bench {

class LatencySource final : public slices::SliceSource {
  public:
    explicit LatencySource(const LatencyOptions& options) : session_(options) {}

    std::vector<std::pair<std::string, std::string>> context() override;
    std::vector<slices::Offer> offers() override;
    /// Runs only the current phase, because a phase needs the result of the one before.
    slices::Slice run(const std::string& name, int64_t operations) override;
    /// Returns latencyJson; null while operations are left.
    std::string report() override;

  private:
    LatencySession session_;
    std::string report_;  ///< set when it was requested
};

}  // namespace kv::bench
