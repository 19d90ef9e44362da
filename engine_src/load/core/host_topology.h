#pragma once

// The CPUs on which this process may run, and what each shares with others.

#include <nlohmann/json_fwd.hpp>

namespace kv::load {

/// Returns {"cpus": [{"os_index", "core", "package", "l3", "numa"}, ...]} in the order of os_index.
/// core, package and l3 are numbers that mean "the same" when equal (hwloc's logical indices). l3
/// is null if hwloc sees no such cache; a host that names no package has one, 0. numa is the
/// kernel's number of the nearest node. Throws LoadError if hwloc fails.
nlohmann::ordered_json hostTopology();

}  // namespace kv::load
