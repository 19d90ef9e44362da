// Topology: which CPUs share a last-level cache. It determines the stripe of a CPU's counters.
//
// Threads: immutable after construction. Topology::process() is read once from hwloc; tests build
// their own from a map.
#pragma once

#include <vector>

namespace kv::options {

class Topology {
  public:
    /// `cacheOfCpu[cpu]` is the number of the last-level cache of that CPU (any numbers; they are
    /// renumbered from 0).
    explicit Topology(const std::vector<unsigned>& cacheOfCpu);

    /// Returns the topology of this machine, detected once; a machine without a visible cache
    /// counts as one cache.
    static const Topology& process();
    /// Reads the machine's topology again.
    static Topology detect();

    [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cacheOfCpu_.size()); }
    [[nodiscard]] unsigned lastLevelCaches() const { return caches_; }
    /// Returns the cache of a CPU; 0 for a number that the machine did not have at start
    /// (hot-plugged).
    [[nodiscard]] unsigned cacheOf(unsigned cpu) const {
        return cpu < cpus() ? cacheOfCpu_[cpu] : 0;
    }
    /// Returns the place of a CPU in an order in which CPUs that share a cache are neighbours: 0 ..
    /// cpus-1.
    [[nodiscard]] unsigned localityOf(unsigned cpu) const {
        return cpu < cpus() ? locality_[cpu] : 0;
    }

  private:
    std::vector<unsigned> cacheOfCpu_;
    std::vector<unsigned> locality_;
    unsigned caches_{1};
};

}  // namespace kv::options
