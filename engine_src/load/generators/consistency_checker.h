#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/core/thread_team.h"
#include "load/generators/consistency_checker_options.h"

namespace kv::load {

/// Runs a load that follows the cluster's map and accounts for its writes: reads every document,
/// loads them, reads them again, and reports. SIGTERM ends the mixed phase; in another phase it
/// interrupts the run. Fills `report` with the findings even if it was interrupted or failed.
RunResult runConsistencyChecker(const ConsistencyCheckerOptions& options,
                                nlohmann::ordered_json& report);

}  // namespace kv::load
