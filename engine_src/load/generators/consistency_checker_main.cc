#include <cstdio>
#include <nlohmann/json.hpp>

#include "load/generators/consistency_checker.h"
#include "load/generators/tool_exit.h"

namespace {

int run(int argc, const char* const* argv) {
    kv::load::ConsistencyCheckerOptions options;
    const int exit = kv::load::parseConsistencyChecker(argc, argv, options);
    if (exit >= 0) {
        return exit;
    }
    kv::load::ThreadTeam::blockSignals();
    nlohmann::ordered_json report;
    const auto result = kv::load::runConsistencyChecker(options, report);
    return kv::load::finishTool("consistency_checker", result, report);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "consistency_checker: %s\n", error.what());
        return kv::load::kExitFailure;
    }
}
