// front_end_latency's phases as slices of operations.
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
    /// The phase under way only: a phase needs what the one before left.
    slices::Slice run(const std::string& name, int64_t operations) override;
    /// latencyJson; null while operations are left.
    std::string report() override;

  private:
    LatencySession session_;
    std::string report_;  ///< once it was asked for
};

}  // namespace kv::bench
