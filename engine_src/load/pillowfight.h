#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/crew.h"
#include "load/pillowfight_options.h"

namespace kv::load {

/// A whole pillowfight: connect, populate, mixed phase, report. Fills `report` with what was
/// measured even when it was interrupted or failed; the result says which.
CrewResult runPillowfight(const PillowfightOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
