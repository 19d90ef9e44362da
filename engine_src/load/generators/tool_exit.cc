#include "load/generators/tool_exit.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "load/generators/common_options.h"

namespace kv::load {

int finishTool(const char* tool, const RunResult& result, const nlohmann::ordered_json& report) {
    std::cout << report.dump() << std::endl;
    if (!result.failure.empty()) {
        std::cerr << tool << ": " << result.failure << "\n";
    }
    if (!std::cout) {
        std::cerr << tool << ": cannot write the report to stdout\n";
        return kExitFailure;
    }
    if (result.interrupted) {
        return kExitInterrupted;
    }
    return result.failure.empty() ? kExitOk : kExitFailure;
}

}  // namespace kv::load
