#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/append_options.h"
#include "load/crew.h"

namespace kv::load {

/// The whole append workload: connect, load, rounds of passes, report. Fills `report` with what was
/// measured even when it was interrupted or failed.
CrewResult runAppend(const AppendOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
