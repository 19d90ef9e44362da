#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/crew.h"
#include "load/witness_options.h"

namespace kv::load {

/// A load that follows the cluster's map and keeps account of its writes: reads every document,
/// loads them, reads them again, reports. SIGTERM ends the mixed phase; in another phase it
/// interrupts the run. Fills `report` with what was found even when it was interrupted or failed.
CrewResult runWitness(const WitnessOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
