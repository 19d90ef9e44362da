// Measures the bucket's operations as a front-end thread sees them: keys of 20 bytes, values of
// 256, 1024 vBuckets, memory charged, one clock reading per 100 operations. The arguments are the
// number of documents.
#include <benchmark/benchmark.h>

#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bucket/bucket.h"
#include "bucket/test_support.h"

namespace kv {

namespace {

constexpr int kBatch = 100;

struct Load {
    explicit Load(size_t items) : bucket(Bucket::createEphemeral({})) {
        const OpTime now = OpTime::now();
        for (uint16_t i = 0; i < bucket->vbucketCount(); ++i) {
            bucket->setVBucketState(Vbid{i}, VbState::Active, now);
        }
        std::mt19937 random(1);
        keys.reserve(items);
        for (size_t i = 0; i < items; ++i) {
            std::string key = "pillow_" + std::to_string(1'000'000'000'000 + i);
            bucket->store(vbidOf(i), key, StoreMode::Set, value, {}, now);
            keys.push_back(std::move(key));
        }
        bucket->resizeHashTables();
        order.resize(1 << 16);
        for (auto& index : order) {
            index = random() % items;
        }
    }
    Vbid vbidOf(size_t i) const { return Vbid{static_cast<uint16_t>(i * 2654435761u % 1024)}; }

    std::unique_ptr<Bucket> bucket;
    std::vector<std::string> keys;
    std::vector<size_t> order;
    std::string value = std::string(256, 'x');
};

Load& shared(size_t items) {
    static std::mutex mutex;
    static std::unique_ptr<Load> load;
    const std::lock_guard lock(mutex);
    if (load == nullptr || load->keys.size() != items) {
        load.reset();
        load = std::make_unique<Load>(items);
    }
    return *load;
}

template <class Op>
void run(benchmark::State& state, Op op) {
    Load& load = shared(static_cast<size_t>(state.range(0)));
    const BucketMemoryGuard guard(load.bucket->memory());
    OpTime now = OpTime::now();
    size_t i = static_cast<size_t>(state.thread_index()) * 7919;
    for (auto _ : state) {
        if (i % kBatch == 0) {
            now = OpTime::now();
        }
        const size_t key = load.order[i++ % load.order.size()];
        OpResult result = op(load, key, now);
        if (!result.ok()) {
            state.SkipWithError("an operation failed");
            break;
        }
        benchmark::DoNotOptimize(result);
    }
    state.SetItemsProcessed(state.iterations());
}

void get(benchmark::State& state) {
    run(state, [](Load& load, size_t i, const OpTime& now) {
        return load.bucket->get(load.vbidOf(i), load.keys[i], now);
    });
}

void set(benchmark::State& state) {
    run(state, [](Load& load, size_t i, const OpTime& now) {
        return load.bucket->store(load.vbidOf(i), load.keys[i], StoreMode::Set, load.value, {},
                                  now);
    });
}

/// A set that also queues for the disk; emptying the queue (there is no store) is not timed.
void setPersistent(benchmark::State& state) {
    constexpr int kFlushEvery = 20'000;
    test::UnflushedBucket bucket({.vbuckets = 16});
    for (uint16_t i = 0; i < bucket.vbucketCount(); ++i) {
        bucket.setVBucketState(Vbid{i}, VbState::Active, OpTime::now());
    }
    const BucketMemoryGuard guard(bucket.memory());
    const std::string value(256, 'x');
    std::vector<std::string> keys;
    for (int64_t i = 0; i < state.range(0); ++i) {
        keys.push_back("pillow_" + std::to_string(1'000'000'000'000 + i));
    }
    OpTime now = OpTime::now();
    size_t i = 0;
    for (auto _ : state) {
        if (i % kBatch == 0) {
            now = OpTime::now();
        }
        if (i % kFlushEvery == 0) {
            state.PauseTiming();
            for (uint16_t vb = 0; vb < bucket.vbucketCount(); ++vb) {
                bucket.flush(Vbid{vb});
            }
            bucket.removeClosedCheckpoints(now);
            bucket.resizeHashTables();
            state.ResumeTiming();
        }
        const size_t key = i++ % keys.size();
        OpResult result = bucket.store(Vbid{static_cast<uint16_t>(key % 16)}, keys[key],
                                       StoreMode::Set, value, {}, now);
        if (!result.ok()) {
            state.SkipWithError("a set failed");
            break;
        }
        benchmark::DoNotOptimize(result);
    }
    state.SetItemsProcessed(state.iterations());
}

/// A DCP producer that needs no notification.
class DeafListener final : public SeqnoListener {
    void onSeqno(Vbid, Seqno) noexcept override {}
};

/// Every set notifies a listener, which is what all front-end threads share then.
void setWithListener(benchmark::State& state) {
    static DeafListener listener;
    Load& load = shared(static_cast<size_t>(state.range(0)));
    if (state.thread_index() == 0) {
        load.bucket->listeners().add(&listener);
    }
    set(state);
    if (state.thread_index() == 0) {
        load.bucket->listeners().remove(&listener);
    }
}

/// Gets while another thread sets other documents of the same vBucket: measures what the two share.
void getBesideSets(benchmark::State& state) {
    constexpr size_t kKeys = 10'000;
    const auto bucket = Bucket::createEphemeral({.vbuckets = 1});
    bucket->setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
    const auto key = [](size_t i) { return "pillow_" + std::to_string(1'000'000'000'000 + i); };
    std::vector<std::string> keys;
    for (size_t i = 0; i < kKeys; ++i) {
        keys.push_back(key(i));
        bucket->store(Vbid{0}, keys.back(), StoreMode::Set, "value", {}, OpTime::now());
    }
    bucket->resizeHashTables();
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        const BucketMemoryGuard guard(bucket->memory());
        const OpTime now = OpTime::now();
        for (size_t i = 0; !stop.load(std::memory_order_relaxed); i = (i + 1) % (kKeys / 2)) {
            bucket->store(Vbid{0}, keys[i], StoreMode::Set, "value", {}, now);
        }
    });
    {
        const BucketMemoryGuard guard(bucket->memory());
        const OpTime now = OpTime::now();
        size_t i = kKeys / 2;
        for (auto _ : state) {
            benchmark::DoNotOptimize(bucket->get(Vbid{0}, keys[i], now));
            i = i + 1 == kKeys ? kKeys / 2 : i + 1;
        }
    }
    stop = true;
    writer.join();
    state.SetItemsProcessed(state.iterations());
}

BENCHMARK(setWithListener)->Name("BucketCost/SetWithListener")->Arg(100'000)->ThreadRange(1, 2);
BENCHMARK(getBesideSets)->Name("BucketCost/GetBesideSets")->UseRealTime();
BENCHMARK(setPersistent)->Name("BucketCost/SetPersistent")->Arg(1000)->Arg(100'000);
BENCHMARK(get)->Name("BucketCost/Get")->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(set)->Name("BucketCost/Set")->Arg(1000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK(get)->Name("BucketCost/Get")->Arg(100'000)->Threads(2);
BENCHMARK(set)->Name("BucketCost/Set")->Arg(100'000)->Threads(2);

}  // namespace

}  // namespace kv

BENCHMARK_MAIN();
