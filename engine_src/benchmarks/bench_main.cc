// main() of every micro-benchmark: Google Benchmark's, with the build settings of this binary in
// the report's context, so that the settings check can read them back ("build.cursor_drop":
// "compare", "allocator.name": "system").
//
// With --slices as its only argument it runs nothing by itself but answers a conductor
// (slices/README.md).
#include <benchmark/benchmark.h>

#include <iostream>
#include <string_view>

#include "benchmarks/benchmark_source.h"
#include "benchmarks/build_context.h"
#include "benchmarks/pass.h"
#include "slices/slice_server.h"

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "--slices") {
        kv::bench::BenchmarkSource source;
        const int status = kv::slices::serveSlices(source, std::cin, std::cout);
        kv::bench::Pass::current().close();
        return status;
    }
    for (const auto& [key, value] : kv::bench::buildContext()) {
        benchmark::AddCustomContext(key, value);
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    benchmark::RunSpecifiedBenchmarks();
    // Not left to the end of the process: a store must be closed before the static data of its
    // library is destroyed.
    kv::bench::Pass::current().close();
    benchmark::Shutdown();
    return 0;
}
