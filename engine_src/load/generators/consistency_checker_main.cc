#include "load/generators/consistency_checker.h"
#include "load/generators/tool_main.h"

int main(int argc, char** argv) {
    kv::load::ConsistencyCheckerOptions options;
    return kv::load::runTool(
            "consistency_checker",
            [&] { return kv::load::parseConsistencyChecker(argc, argv, options); },
            [&](auto& report) { return kv::load::runConsistencyChecker(options, report); });
}
