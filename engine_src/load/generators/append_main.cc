#include <cstdio>
#include <nlohmann/json.hpp>

#include "load/generators/append.h"
#include "load/generators/tool_exit.h"

namespace {

int run(int argc, const char* const* argv) {
    kv::load::AppendOptions options;
    const int exit = kv::load::parseAppend(argc, argv, options);
    if (exit >= 0) {
        return exit;
    }
    kv::load::ThreadTeam::blockSignals();
    nlohmann::ordered_json report;
    const auto result = kv::load::runAppend(options, report);
    return kv::load::finishTool("append", result, report);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "append: %s\n", error.what());
        return kv::load::kExitFailure;
    }
}
