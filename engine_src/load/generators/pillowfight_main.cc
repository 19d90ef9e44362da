#include <cstdio>
#include <nlohmann/json.hpp>

#include "load/generators/pillowfight.h"
#include "load/generators/tool_exit.h"

namespace {

int run(int argc, const char* const* argv) {
    kv::load::PillowfightOptions options;
    const int exit = kv::load::parsePillowfight(argc, argv, options);
    if (exit >= 0) {
        return exit;
    }
    kv::load::ThreadTeam::blockSignals();
    nlohmann::ordered_json report;
    const auto result = kv::load::runPillowfight(options, report);
    return kv::load::finishTool("pillowfight", result, report);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pillowfight: %s\n", error.what());
        return kv::load::kExitFailure;
    }
}
