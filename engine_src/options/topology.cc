#include "options/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

namespace kv::options {

namespace {

struct TopologyDestroyer {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDestroyer>;

/// Returns the data cache farthest from the processing unit, nullptr if hwloc sees none.
hwloc_obj_t lastLevelCache(hwloc_obj_t processingUnit) {
    hwloc_obj_t last = nullptr;
    for (hwloc_obj_t object = processingUnit->parent; object != nullptr; object = object->parent) {
        if (hwloc_obj_type_is_dcache(object->type) != 0) {
            last = object;
        }
    }
    return last;
}

}  // namespace

Topology::Topology(const std::vector<unsigned>& cacheOfCpu) : cacheOfCpu_(cacheOfCpu) {
    if (cacheOfCpu_.empty()) {
        cacheOfCpu_.push_back(0);
    }
    std::map<unsigned, unsigned> renumbered;
    for (unsigned& cache : cacheOfCpu_) {
        cache = renumbered.try_emplace(cache, static_cast<unsigned>(renumbered.size()))
                        .first->second;
    }
    caches_ = static_cast<unsigned>(renumbered.size());
    std::vector<unsigned> order(cacheOfCpu_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [this](unsigned a, unsigned b) { return cacheOfCpu_[a] < cacheOfCpu_[b]; });
    locality_.resize(order.size());
    for (unsigned place = 0; place < order.size(); ++place) {
        locality_[order[place]] = place;
    }
}

Topology Topology::detect() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) {
        return Topology({0});
    }
    const TopologyHandle topology(raw);
    if (hwloc_topology_load(raw) != 0) {
        return Topology({0});
    }
    std::vector<unsigned> cacheOfCpu;
    std::map<hwloc_obj_t, unsigned> numbers;
    hwloc_obj_t unit = nullptr;
    while ((unit = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, unit)) != nullptr) {
        // CPUs without a visible cache share number 0 with the first cache: one stripe is the safe
        // choice.
        const hwloc_obj_t cache = lastLevelCache(unit);
        const auto number =
                numbers.try_emplace(cache, static_cast<unsigned>(numbers.size())).first->second;
        if (cacheOfCpu.size() <= unit->os_index) {
            cacheOfCpu.resize(unit->os_index + 1, 0);
        }
        cacheOfCpu[unit->os_index] = number;
    }
    return Topology(cacheOfCpu);
}

const Topology& Topology::process() {
    static const Topology kDetected = detect();
    return kDetected;
}

}  // namespace kv::options
