#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/core/thread_team.h"
#include "load/generators/append_options.h"

namespace kv::load {

/// Runs the whole append workload: connect, load, rounds of passes, report. Fills `report` with the
/// measurements even if it was interrupted or failed.
RunResult runAppend(const AppendOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
