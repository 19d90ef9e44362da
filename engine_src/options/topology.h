// Topology: which CPU shares its last-level cache with which others. Decides the stripe that a
// CPU's counters go to.
//
// Immutable after construction; Topology::process() is read once from hwloc, tests build their own
// from a map.
#pragma once

#include <cstdint>
#include <vector>

namespace kv::options {

class Topology {
  public:
    /// `cacheOfCpu[cpu]` = number of the last-level cache of that CPU (any numbers; they are
    /// renumbered from 0).
    explicit Topology(const std::vector<unsigned>& cacheOfCpu);

    /// This machine's, detected once; a machine without a visible cache counts as one cache.
    static const Topology& process();
    /// Reads the machine anew.
    static Topology detect();

    [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cacheOfCpu_.size()); }
    [[nodiscard]] unsigned lastLevelCaches() const { return caches_; }
    /// Cache of a CPU; 0 for a number that the machine did not have at start (hot-plugged).
    [[nodiscard]] unsigned cacheOf(unsigned cpu) const {
        return cpu < cpus() ? cacheOfCpu_[cpu] : 0;
    }
    /// Place of a CPU in an order in which CPUs that share a cache are neighbours: 0 .. cpus-1.
    [[nodiscard]] unsigned localityOf(unsigned cpu) const {
        return cpu < cpus() ? locality_[cpu] : 0;
    }

  private:
    std::vector<unsigned> cacheOfCpu_;
    std::vector<unsigned> locality_;
    unsigned caches_{1};
};

}  // namespace kv::options
