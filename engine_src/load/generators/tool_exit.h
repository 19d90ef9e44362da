#pragma once

#include <nlohmann/json_fwd.hpp>

#include "load/core/thread_team.h"

namespace kv::load {

/// Prints the report on stdout and a failure on stderr; returns the exit status of the tool.
int finishTool(const char* tool, const RunResult& result, const nlohmann::ordered_json& report);

}  // namespace kv::load
