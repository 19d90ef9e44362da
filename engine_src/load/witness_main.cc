#include <cstdio>
#include <nlohmann/json.hpp>

#include "load/tool_exit.h"
#include "load/witness.h"

namespace {

int run(int argc, const char* const* argv) {
    kv::load::WitnessOptions options;
    const int exit = kv::load::parseWitness(argc, argv, options);
    if (exit >= 0) {
        return exit;
    }
    kv::load::Crew::blockSignals();
    nlohmann::ordered_json report;
    const auto result = kv::load::runWitness(options, report);
    return kv::load::finishTool("witness", result, report);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "witness: %s\n", error.what());
        return kv::load::kExitFailure;
    }
}
