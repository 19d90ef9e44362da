#include "load/core/host_topology.h"

#include <hwloc.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "load/core/load_error.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

namespace {

struct Destroy {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
    void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;
using CpuSet = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, Destroy>;

Json around(hwloc_topology_t topology, hwloc_obj_t unit, hwloc_obj_type_t type) {
    const hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(topology, type, unit);
    return object == nullptr ? Json(nullptr) : Json(object->logical_index);
}

}  // namespace

Json hostTopology() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) {
        throw LoadError("hwloc cannot be initialised");
    }
    const Topology topology(raw);
    const CpuSet allowed(hwloc_bitmap_alloc());
    if (hwloc_topology_load(raw) != 0 || allowed == nullptr ||
        hwloc_get_cpubind(raw, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
        throw LoadError("hwloc cannot read this host's CPUs");
    }
    Json cpus = Json::array();
    int cpu = -1;
    while ((cpu = hwloc_bitmap_next(allowed.get(), cpu)) >= 0) {
        const hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(raw, static_cast<unsigned>(cpu));
        if (unit == nullptr) {
            continue;  // the set may name CPUs that the host does not have
        }
        const Json package = around(raw, unit, HWLOC_OBJ_PACKAGE);
        cpus.push_back({{"os_index", cpu},
                        {"core", around(raw, unit, HWLOC_OBJ_CORE)},
                        {"package", package.is_null() ? Json(0) : package},
                        {"l3", around(raw, unit, HWLOC_OBJ_L3CACHE)},
                        {"numa", hwloc_bitmap_first(unit->nodeset)}});
    }
    return {{"cpus", cpus}};
}

}  // namespace kv::load
