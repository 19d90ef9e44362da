#include "load/generators/append.h"
#include "load/generators/tool_main.h"

int main(int argc, char** argv) {
    kv::load::AppendOptions options;
    return kv::load::runTool(
            "append", [&] { return kv::load::parseAppend(argc, argv, options); },
            [&](auto& report) { return kv::load::runAppend(options, report); });
}
