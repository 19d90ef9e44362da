#include "load/generators/pillowfight.h"
#include "load/generators/tool_main.h"

int main(int argc, char** argv) {
    kv::load::PillowfightOptions options;
    return kv::load::runTool(
            "pillowfight", [&] { return kv::load::parsePillowfight(argc, argv, options); },
            [&](auto& report) { return kv::load::runPillowfight(options, report); });
}
