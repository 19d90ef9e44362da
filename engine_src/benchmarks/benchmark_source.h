// The registered Google Benchmarks as slices: one run of the library for each, with the given
// number of iterations, so that no time is spent on a search for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "slices/slice_server.h"

namespace kv::bench {

class BenchmarkSource final : public slices::SliceSource {
  public:
    std::vector<std::pair<std::string, std::string>> context() override;
    std::vector<slices::Offer> offers() override;
    slices::Slice run(const std::string& name, int64_t iterations) override;
    /// "null": the answer to a slice contains everything.
    std::string report() override { return "null"; }

  private:
    std::string name_;  ///< the name of the current pass
};

}  // namespace kv::bench
