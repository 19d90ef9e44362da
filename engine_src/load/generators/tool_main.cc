#include "load/generators/tool_main.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "load/generators/common_options.h"

namespace kv::load {

namespace {

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

}  // namespace

int runTool(const char* tool, const std::function<int()>& parse,
            const std::function<RunResult(nlohmann::ordered_json& report)>& run) {
    try {
        if (const int exit = parse(); exit >= 0) {
            return exit;
        }
        ThreadTeam::blockSignals();
        nlohmann::ordered_json report;
        const RunResult result = run(report);
        return finishTool(tool, result, report);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", tool, error.what());
        return kExitFailure;
    }
}

}  // namespace kv::load
