#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/core/thread_team.h"
#include "load/generators/pillowfight_options.h"

namespace kv::load {

/// Runs a whole pillowfight: connect, populate, mixed phase, report. Fills `report` with the
/// measurements even if it was interrupted or failed; the result tells which.
RunResult runPillowfight(const PillowfightOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
