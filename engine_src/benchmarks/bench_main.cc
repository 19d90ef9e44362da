// main() of every micro-benchmark: Google Benchmark's, with what this binary was built with in the
// report's context, so that the proof step can read it back ("build.cursor_drop": "compare",
// "allocator.name": "system").
#include <benchmark/benchmark.h>

#include "allocators/allocator.h"
#include "options/build_info.h"

int main(int argc, char** argv) {
    for (const auto& [option, value] : kv::options::buildInfo()) {
        benchmark::AddCustomContext("build." + option, value);
    }
    benchmark::AddCustomContext("allocator.name", kv::allocator::name());
    benchmark::AddCustomContext("allocator.version", kv::allocator::version());
    for (const auto& [option, value] : kv::allocator::options()) {
        benchmark::AddCustomContext("allocator." + option, value);
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
