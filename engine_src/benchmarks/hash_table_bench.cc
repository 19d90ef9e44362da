// HTB: the hash table under several threads, with the statistics policy of the build.
//
//   Insert, Replace, Delete, Find   each thread's keys; one pass over them per iteration
//   HTStatsEpilogue                 only the statistics: StoredValues outside the table, no lock
//   HTStatsUnchanged                the same for a Replace by an equal size, which changes no
//                                   counter
//
// A pass may be run in parts (pass.h); the items are made once, the table for each pass.
//
// There are two sets of parameters. `historic`: 100 000 items per thread in a table of 100 000
// buckets for any number of threads, so that chains and the 47 locks weigh more than the
// statistics. `sized`: as many buckets as items. Both differ from the historic benchmark in that
// threads wait for each other before and after the timed pass (its barrier let everyone through, so
// that one thread's clean-up fell into another's measurement).
//
// HTBOversubscribed/... are the same with twice as many threads as CPUs that the process may use
// (the counter `cpus`). They have separate names because their threads also interrupt each other,
// in the middle of an operation and while they hold a lock.
//
// KV_BENCH_TOPOLOGY=0,1 gives CPU 0 and CPU 1 separate last-level caches, for the llc policy on a
// machine with only one; the counter `stripes` is the real number of stripes of the table.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/own_cpu.h"
#include "benchmarks/pass.h"
#include "benchmarks/registry.h"
#include "bucket/hash_table.h"
#include "types/item.h"

namespace kv {
namespace {

constexpr size_t kItemsPerThread = 100'000;

const options::Topology& topology() {
    static const options::Topology kChosen = [] {
        // Read once, before any other thread exists.
        const char* injected = std::getenv("KV_BENCH_TOPOLOGY");  // NOLINT(concurrency-mt-unsafe)
        if (injected == nullptr) {
            return options::Topology::detect();
        }
        std::vector<unsigned> caches;
        std::istringstream list(injected);
        for (std::string cache; std::getline(list, cache, ',');) {
            caches.push_back(static_cast<unsigned>(std::stoul(cache)));
        }
        return options::Topology(caches);
    }();
    return kChosen;
}

/// CPUs that the process may use: read before any thread is pinned to one of them.
int cpus() {
    static const int kUsable = bench::usableCpus();
    return kUsable;
}

enum class Buckets { Historic, Sized };
enum class Filled { No, Yes };

using Items = std::vector<ItemPtr>;

/// The items of each thread: always the same, made once.
const std::vector<Items>& itemsOf(int threads) {
    static std::vector<Items> all;
    for (size_t thread = all.size(); thread < static_cast<size_t>(threads); ++thread) {
        Items& items = all.emplace_back();
        items.reserve(kItemsPerThread);
        for (size_t i = 0; i < kItemsPerThread; ++i) {
            const auto key = "Thread" + std::to_string(thread) + "::" + std::to_string(i);
            items.push_back(
                    Item::create(Vbid{0}, ItemOp::Mutation, key, ItemMeta{}, Blob::create("x")));
        }
    }
    return all;
}

/// The table that all threads share for a pass. The library's own barrier surrounds the timed
/// loops.
HashTable* table = nullptr;  // NOLINT(readability-identifier-naming): one pass at a time

std::unique_ptr<HashTable> makeTable(Buckets buckets, Filled filled, int threads) {
    auto made = std::make_unique<HashTable>(HashTableConfig{}, topology());
    const auto sized = buckets == Buckets::Sized ? static_cast<size_t>(threads) : 1;
    made->resize(static_cast<uint32_t>(kItemsPerThread * sized));
    const auto& items = itemsOf(threads);
    for (size_t thread = 0; filled == Filled::Yes && thread < static_cast<size_t>(threads);
         ++thread) {
        for (const auto& item : items[thread]) {
            made->set(*item);
        }
    }
    return made;
}

/// Runs before the threads of a run exist. `kLength`: iterations of a pass; 0: it has no end.
template <size_t kName, Buckets kBuckets, Filled kFilled, int64_t kLength>
void open(const benchmark::State& state) {
    const int threads = state.threads();
    table = &bench::Pass::current().open<HashTable>(
            std::to_string(kName) + "/" + std::to_string(static_cast<int>(kBuckets)) + "/" +
                    std::to_string(threads),
            kLength, [threads] { return makeTable(kBuckets, kFilled, threads); });
}

void finish(benchmark::State& state) {
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
    if (state.thread_index() == 0) {
        state.counters["stripes"] = table->statsStripes();
        state.counters["stats_bytes_per_vb"] = static_cast<double>(table->statsBytes());
        state.counters["cpus"] = cpus();
        bench::Pass::current().advance(static_cast<int64_t>(state.iterations()));
    }
}

/// Runs `body(table, item)` for the thread's next items; false from it is an error.
template <class Body>
void overItems(benchmark::State& state, Body body) {
    const Items& items = itemsOf(state.threads())[static_cast<size_t>(state.thread_index())];
    HashTable& shared = *table;
    auto next = static_cast<size_t>(bench::Pass::current().position());
    bool wrong = false;
    const bench::OwnCpu own(state.thread_index(), state.threads());
    for (auto _ : state) {
        wrong |= !body(shared, *items[next++]);
    }
    if (wrong) {
        state.SkipWithError("an operation found, or missed, its key");
    }
    finish(state);
}

void insert(benchmark::State& state) {
    overItems(state, [](HashTable& shared, const Item& item) {
        return shared.set(item) == SetStatus::WasClean;
    });
}

void replace(benchmark::State& state) {
    overItems(state, [](HashTable& shared, const Item& item) {
        return shared.set(item) == SetStatus::WasDirty;
    });
}

void erase(benchmark::State& state) {
    overItems(state, [](HashTable& shared, const Item& item) {
        const auto guard = shared.lock(item.key());
        StoredValue* found = shared.find(guard, item.key());
        return found != nullptr && shared.remove(guard, *found) != nullptr;
    });
}

void find(benchmark::State& state) {
    overItems(state, [](HashTable& shared, const Item& item) {
        const auto guard = shared.lock(item.key());
        const StoredValue* found = shared.find(guard, item.key());
        benchmark::DoNotOptimize(found);
        return found != nullptr;
    });
}

void statsEpilogue(benchmark::State& state) {
    const auto value =
            StoredValue::create("Thread" + std::to_string(state.thread_index()), Ordered::No);
    value->setDocument(ItemMeta{}, Blob::create("x"));
    HashTable& shared = *table;
    const bench::OwnCpu own(state.thread_index(), state.threads());
    for (auto _ : state) {
        shared.epilogue(StoredValueFacts(), value.get());
    }
    finish(state);
}

/// The cost of the statistics for a Replace when sizes and datatype stay: two looks at the
/// document, and the access to the stripe. No counter is written, so there is no contention for a
/// cache line.
void statsUnchanged(benchmark::State& state) {
    const auto value =
            StoredValue::create("Thread" + std::to_string(state.thread_index()), Ordered::No);
    value->setDocument(ItemMeta{}, Blob::create("x"));
    HashTable& shared = *table;
    const HashTableSums before = shared.sums();
    const bench::OwnCpu own(state.thread_index(), state.threads());
    for (auto _ : state) {
        StoredValueFacts facts(value.get());
        benchmark::DoNotOptimize(facts);
        shared.epilogue(facts, value.get());
    }
    if (shared.sums() != before) {
        state.SkipWithError("a counter changed");
    }
    finish(state);
}

/// The smallest and the largest number of threads of a family, with doublings in between.
struct Threads {
    std::string family;
    int least, most;
};

/// One pass over the items.
template <size_t kName, Filled kFilled>
void addBoth(const Threads& threads, const std::string& name, void (*body)(benchmark::State&)) {
    constexpr auto kLength = static_cast<int64_t>(kItemsPerThread);
    bench::addPass(threads.family + "/" + name + "/historic", kLength, body)
            ->Setup(open<kName, Buckets::Historic, kFilled, kLength>)
            ->ThreadRange(threads.least, threads.most)
            ->UseRealTime();
    bench::addPass(threads.family + "/" + name + "/sized", kLength, body)
            ->Setup(open<kName, Buckets::Sized, kFilled, kLength>)
            ->ThreadRange(threads.least, threads.most)
            ->UseRealTime();
}

void addFamily(const Threads& threads) {
    addBoth<0, Filled::No>(threads, "Insert", insert);
    addBoth<1, Filled::Yes>(threads, "Replace", replace);
    addBoth<2, Filled::Yes>(threads, "Delete", erase);
    addBoth<3, Filled::Yes>(threads, "Find", find);
    bench::add(threads.family + "/HTStatsEpilogue", statsEpilogue)
            ->Setup(open<4, Buckets::Historic, Filled::No, 0>)
            ->ThreadRange(threads.least, threads.most)
            ->UseRealTime();
    bench::add(threads.family + "/HTStatsUnchanged", statsUnchanged)
            ->Setup(open<5, Buckets::Historic, Filled::No, 0>)
            ->ThreadRange(threads.least, threads.most)
            ->UseRealTime();
}

void registerAll() {
    addFamily({"HTB", 1, static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))});
    addFamily({"HTBOversubscribed", 2 * cpus(), 2 * cpus()});
}

const bool kRegistered = (registerAll(), true);

}  // namespace
}  // namespace kv
