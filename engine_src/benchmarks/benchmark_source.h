// The registered Google Benchmarks as slices: one run of the library for each, with the number of
// iterations given, so that nothing is spent on a search for it.
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
    /// "null": a slice's answer says all.
    std::string report() override { return "null"; }

  private:
    std::string name_;  ///< whose pass may be under way
};

}  // namespace kv::bench
