// HTB: the hash table under several threads, with the statistics policy that was built in.
//
//   Insert, Replace, Delete, Find   own keys for every thread, one pass over them an iteration each
//   HTStatsEpilogue                 the statistics alone: StoredValues outside the table, no lock
//
// Two sets of parameters. `historic`: 100 000 items a thread in a table of 100 000 buckets whatever
// the number of threads, so that chains and the 47 locks weigh more than the statistics. `sized`:
// as many buckets as items. Both differ from the historic benchmark in that threads wait for each
// other before and after the timed pass (its barrier let everyone through, so that one thread's
// clean-up fell into another's measurement).
//
// KV_BENCH_TOPOLOGY=0,1 gives CPU 0 and CPU 1 last-level caches of their own, for the llc policy on
// a machine with one; the counter `stripes` says how many stripes the table really has.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

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

enum class Buckets { Historic, Sized };

/// The table that all threads of one run share. Google Benchmark's own barrier stands between
/// thread 0's set-up, the timed loop of all, and thread 0's tear-down.
class Shared {
  public:
    void open(const benchmark::State& state, Buckets buckets) {
        table_ = std::make_unique<HashTable>(HashTableConfig{}, topology());
        const auto threads = buckets == Buckets::Sized ? static_cast<size_t>(state.threads()) : 1;
        table_->resize(static_cast<uint32_t>(kItemsPerThread * threads));
    }
    void close() { table_.reset(); }
    HashTable& table() { return *table_; }

  private:
    std::unique_ptr<HashTable> table_;
};
Shared shared;  // NOLINT(readability-identifier-naming): one run at a time, see Shared

std::vector<ItemPtr> makeItems(int thread) {
    std::vector<ItemPtr> items;
    items.reserve(kItemsPerThread);
    for (size_t i = 0; i < kItemsPerThread; ++i) {
        const auto key = "Thread" + std::to_string(thread) + "::" + std::to_string(i);
        items.push_back(
                Item::create(Vbid{0}, ItemOp::Mutation, key, ItemMeta{}, Blob::create("x")));
    }
    return items;
}

void finish(benchmark::State& state) {
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
    if (state.thread_index() == 0) {
        state.counters["stripes"] = shared.table().statsStripes();
        state.counters["stats_bytes_per_vb"] = static_cast<double>(shared.table().statsBytes());
        shared.close();
    }
}

void insert(benchmark::State& state, Buckets buckets) {
    if (state.thread_index() == 0) {
        shared.open(state, buckets);
    }
    const auto items = makeItems(state.thread_index());
    size_t next = 0;
    bool wrong = false;
    for (auto _ : state) {
        wrong |= shared.table().set(*items[next++]) != SetStatus::WasClean;
    }
    if (wrong) {
        state.SkipWithError("an insert found its key");
    }
    finish(state);
}

/// `body(table, item)` over items that are in the table; false from it is an error.
template <class Body>
void overPresent(benchmark::State& state, Buckets buckets, Body body) {
    static std::vector<std::vector<ItemPtr>> all;
    if (state.thread_index() == 0) {
        shared.open(state, buckets);
        all.clear();
        for (int thread = 0; thread < state.threads(); ++thread) {
            all.push_back(makeItems(thread));
            for (const auto& item : all.back()) {
                shared.table().set(*item);
            }
        }
    }
    const auto index = static_cast<size_t>(state.thread_index());
    size_t next = 0;
    bool wrong = false;
    for (auto _ : state) {
        wrong |= !body(shared.table(), *all[index][next++]);
    }
    if (wrong) {
        state.SkipWithError("an operation missed its key");
    }
    finish(state);
}

void replace(benchmark::State& state, Buckets buckets) {
    overPresent(state, buckets, [](HashTable& table, const Item& item) {
        return table.set(item) == SetStatus::WasDirty;
    });
}

void erase(benchmark::State& state, Buckets buckets) {
    overPresent(state, buckets, [](HashTable& table, const Item& item) {
        const auto guard = table.lock(item.key());
        StoredValue* found = table.find(guard, item.key());
        return found != nullptr && table.remove(guard, *found) != nullptr;
    });
}

void find(benchmark::State& state, Buckets buckets) {
    overPresent(state, buckets, [](HashTable& table, const Item& item) {
        const auto guard = table.lock(item.key());
        const StoredValue* found = table.find(guard, item.key());
        benchmark::DoNotOptimize(found);
        return found != nullptr;
    });
}

void statsEpilogue(benchmark::State& state) {
    if (state.thread_index() == 0) {
        shared.open(state, Buckets::Historic);
    }
    const auto value =
            StoredValue::create("Thread" + std::to_string(state.thread_index()), Ordered::No);
    value->setDocument(ItemMeta{}, Blob::create("x"));
    for (auto _ : state) {
        shared.table().epilogue(StoredValueFacts(), value.get());
    }
    finish(state);
}

void registerAll() {
    const int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const auto pass = [cpus](const std::string& name, void (*body)(benchmark::State&, Buckets)) {
        for (const auto buckets : {Buckets::Historic, Buckets::Sized}) {
            const auto full =
                    "HTB/" + name + (buckets == Buckets::Historic ? "/historic" : "/sized");
            benchmark::RegisterBenchmark(full.c_str(), body, buckets)
                    ->Iterations(kItemsPerThread)
                    ->ThreadRange(1, cpus)
                    ->UseRealTime();
        }
    };
    pass("Insert", insert);
    pass("Replace", replace);
    pass("Delete", erase);
    pass("Find", find);
    benchmark::RegisterBenchmark("HTB/HTStatsEpilogue", statsEpilogue)
            ->ThreadRange(1, cpus)
            ->UseRealTime();
}

const bool kRegistered = (registerAll(), true);

}  // namespace
}  // namespace kv
