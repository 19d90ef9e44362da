// Cost of the accounting: new+delete of one block without a bucket, with one, and with a peak watch
// in addition.
#include <benchmark/benchmark.h>

#include "memory/bucket_memory.h"
#include "memory/memory_peak.h"

namespace kv {

namespace {

void newDelete(benchmark::State& state) {
    for (auto _ : state) {
        void* block = ::operator new(static_cast<size_t>(state.range(0)));
        benchmark::DoNotOptimize(block);
        ::operator delete(block);
    }
}

void nobodyBound(benchmark::State& state) {
    newDelete(state);
}
BENCHMARK(nobodyBound)->Name("MemoryCost/NobodyBound")->Arg(64)->Arg(264);

void bucketBound(benchmark::State& state) {
    BucketMemory memory(size_t{1} << 30);
    const BucketMemoryGuard guard(memory);
    newDelete(state);
}
BENCHMARK(bucketBound)->Name("MemoryCost/BucketBound")->Arg(64)->Arg(264);

void bucketBoundAndPeak(benchmark::State& state) {
    BucketMemory memory(size_t{1} << 30);
    const BucketMemoryGuard guard(memory);
    const MemoryPeak peak;
    newDelete(state);
}
BENCHMARK(bucketBoundAndPeak)->Name("MemoryCost/BucketBoundAndPeak")->Arg(64)->Arg(264);

void guard(benchmark::State& state) {
    BucketMemory memory(size_t{1} << 30);
    for (auto _ : state) {
        const BucketMemoryGuard guard(memory);
        benchmark::ClobberMemory();
    }
}
BENCHMARK(guard)->Name("MemoryCost/Guard");

}  // namespace

}  // namespace kv

BENCHMARK_MAIN();
