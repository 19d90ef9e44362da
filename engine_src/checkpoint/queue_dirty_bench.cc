// Measures the cost of a mutation in the checkpoint manager: seqno and CAS alone, and with an item
// that is kept. benchmarks/checkpoint_bench.cc measures the calls that the checkpoint switches
// change.
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manager.h"

namespace kv {
namespace {

constexpr int kKeys = 10000;

std::vector<std::string> makeKeys() {
    std::vector<std::string> keys;
    keys.reserve(kKeys);
    for (int i = 0; i < kKeys; ++i) {
        keys.push_back("key" + std::to_string(i));
    }
    return keys;
}

/// Nobody reads: only seqno and CAS.
void assignOnly(benchmark::State& state) {
    const CheckpointConfig config;
    CheckpointManager manager(Vbid{0}, config);
    uint64_t now = 1;
    for (auto _ : state) {
        benchmark::DoNotOptimize(manager.assignOnly(++now));
    }
}
BENCHMARK(assignOnly)->Name("CheckpointCost/AssignOnly");

/// Only the call: items are made outside the timed part, in batches. Argument: percentage of
/// mutations that replace.
void queueDirty(benchmark::State& state) {
    CheckpointConfig config;
    config.maxCheckpoints = 3;
    CheckpointManager manager(Vbid{0}, config);
    manager.persistence().registerCursor();
    const auto keys = makeKeys();
    const auto replacing = static_cast<int>(state.range(0));
    std::vector<Seqno> seqnos(kKeys);
    std::vector<ItemPtr> items(kKeys);
    uint64_t now = 1;
    for (auto _ : state) {
        for (int i = 0; i < kKeys; ++i) {
            const auto index = static_cast<size_t>(i % 100 < replacing ? i % 50 : i);
            items[static_cast<size_t>(i)] =
                    Item::create(Vbid{0}, ItemOp::Mutation, keys[index], {}, {});
        }
        std::fill(seqnos.begin(), seqnos.end(), Seqno{});
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < kKeys; ++i) {
            const auto index = static_cast<size_t>(i % 100 < replacing ? i % 50 : i);
            seqnos[index] =
                    manager.queueDirty(std::move(items[static_cast<size_t>(i)]), seqnos[index],
                                       GenerateSeqno::Yes, GenerateCas::Yes, ++now)
                            .seqno;
        }
        state.SetIterationTime(
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        (void)manager.persistence().takeItemsToPersist(~size_t{0});
        manager.persistence().persisted();
        manager.removal().closeIfDue(now += 10'000'000'000);
        (void)manager.removal().extractClosedUnrefCheckpoints();
    }
    state.SetItemsProcessed(state.iterations() * kKeys);
    state.counters["per_call"] =
            benchmark::Counter(static_cast<double>(state.iterations()) * kKeys,
                               benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(queueDirty)->Name("CheckpointCost/QueueDirty")->Arg(0)->Arg(90)->UseManualTime();

}  // namespace
}  // namespace kv

BENCHMARK_MAIN();
