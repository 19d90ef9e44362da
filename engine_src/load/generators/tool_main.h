#pragma once

// The main function of a load tool.

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "load/core/thread_team.h"

namespace kv::load {

/// Parses the command line, runs the tool, and prints its report on stdout and a failure on stderr.
/// `parse` returns -1 to continue, otherwise the exit status; `run` fills the report. Returns the
/// exit status of the process, and throws nothing.
int runTool(const char* tool, const std::function<int()>& parse,
            const std::function<RunResult(nlohmann::ordered_json& report)>& run);

}  // namespace kv::load
