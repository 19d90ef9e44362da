// The cost of a flush per item, in CPU time and in bytes of heap at its peak, for both values of
// ENGINE_FLUSH_CALLBACK in one binary. Argument: items of the flush. `store_bytes` is the part of
// the store itself (batch, memtable), measured by the same puts without a flusher; the peak is
// reset right before the timed part.
#include <benchmark/benchmark.h>
#include <time.h>

#include <string>
#include <vector>

#include "memory/memory_peak.h"
#include "persistence/flusher.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

/// A vBucket with a single batch.
class OneBatch final : public FlushTarget {
  public:
    explicit OneBatch(Vbid vbid = Vbid{0}) : vbid_(vbid) {}
    [[nodiscard]] Vbid vbid() const override { return vbid_; }
    std::unique_lock<std::mutex> lockForFlush() override { return std::unique_lock(mutex_); }
    std::unique_lock<std::mutex> tryLockForFlush() override { return {mutex_, std::try_to_lock}; }
    FlushBatch takeItemsToPersist(size_t, size_t) override {
        FlushBatch batch;
        batch.items = items;
        batch.snapshot = {items.front()->seqno(), items.back()->seqno()};
        return batch;
    }
    PersistedVbState stateToPersist() override { return {}; }
    bool takeStateChange() override { return false; }
    void stateChangeStored() override {}
    void persistedSet(const Item&) override {}
    void persistedDelete(const Item&) override {}
    void persisted(const PersistedVbState&) override {}
    void persistFailed() override { std::abort(); }

    std::vector<ItemPtr> items;

  private:
    const Vbid vbid_;
    std::mutex mutex_;
};

std::vector<ItemPtr> makeItems(int64_t count, uint64_t firstSeqno) {
    std::vector<ItemPtr> items;
    items.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
        const ItemMeta meta{.cas = Cas{1}, .seqno = Seqno{firstSeqno + static_cast<uint64_t>(i)}};
        items.push_back(Item::create(Vbid{0}, ItemOp::Mutation, "key" + std::to_string(i), meta,
                                     Blob::create("x")));
    }
    return items;
}

double threadSeconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A fresh database per iteration, so that every flush inserts.
class FreshStore {
  public:
    RocksStore& operator*() { return store_; }

  private:
    const TempDir dir_;
    RocksStore store_{dir_.path(), RocksConfig{.writeBufferBytes = 1U << 30}};
};

template <class Callback>
void flush(benchmark::State& state) {
    using Options =
            FlushOptions<Callback, options::NoIds, options::FreeBeforeCommit, options::DedupSet>;
    MemoryPeak peak;
    int64_t peakBytes = 0;
    for (auto _ : state) {
        FreshStore store;
        BasicFlusher<Options> flusher(*store, 1, {});
        OneBatch target;
        target.items = makeItems(state.range(0), 1);
        peak.resetMax();
        const int64_t before = peak.current();
        const double begin = threadSeconds();
        if (flusher.flushVBucket(target) == FlushResult::Failed) {
            state.SkipWithError("the flush failed");
        }
        state.SetIterationTime(threadSeconds() - begin);
        peakBytes = peak.max() - before;
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
    state.counters["peak_bytes_per_item"] =
            static_cast<double>(peakBytes) / static_cast<double>(state.range(0));
}

void storeAlone(benchmark::State& state) {
    MemoryPeak peak;
    int64_t peakBytes = 0;
    for (auto _ : state) {
        FreshStore store;
        const auto items = makeItems(state.range(0), 1);
        peak.resetMax();
        const int64_t before = peak.current();
        const double begin = threadSeconds();
        (*store).begin(Vbid{0}, transactionBytes(items));
        for (const ItemPtr& item : items) {
            (*store).put(*item);
        }
        if (!(*store).endAndCommit({})) {
            state.SkipWithError("the commit failed");
        }
        state.SetIterationTime(threadSeconds() - begin);
        peakBytes = peak.max() - before;
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
    state.counters["peak_bytes_per_item"] =
            static_cast<double>(peakBytes) / static_cast<double>(state.range(0));
}

/// A pass over many vBuckets, each with a number of documents that are already stored: the flusher
/// of a server under load.
void pass(benchmark::State& state) {
    constexpr uint16_t kVBuckets = 512;
    constexpr uint64_t kKeys = 100;  // of each vBucket
    FreshStore store;
    Flusher flusher(*store, kVBuckets, {});
    std::vector<std::unique_ptr<OneBatch>> targets;
    for (uint16_t id = 0; id < kVBuckets; ++id) {
        targets.push_back(std::make_unique<OneBatch>(Vbid{id}));
    }
    const std::string value(256, 'x');
    uint64_t seqno = 0;
    const auto write = [&](uint64_t count) {
        for (const auto& target : targets) {
            target->items.clear();
            for (uint64_t i = 1; i <= count; ++i) {
                // A stride without a common divisor: every key once, in no order.
                const std::string key =
                        "pillow_" + std::to_string(1'000'000'000'000 + (seqno + i) * 37 % kKeys);
                target->items.push_back(Item::create(
                        target->vbid(), ItemOp::Mutation, key,
                        {.cas = Cas{seqno + i}, .seqno = Seqno{seqno + i}}, Blob::create(value)));
            }
            flusher.notify(target->vbid());
        }
        seqno += count;
    };
    const auto flush = [&] {
        return flusher.flushAll([&](Vbid vbid) -> FlushTarget& { return *targets[vbid.get()]; });
    };
    write(kKeys);
    bool stored = flush();
    const auto count = static_cast<uint64_t>(state.range(0));
    for (auto _ : state) {
        write(count);
        const double begin = threadSeconds();
        stored = flush() && stored;
        state.SetIterationTime(threadSeconds() - begin);
    }
    if (!stored) {
        state.SkipWithError("the flush failed");
    }
    state.SetItemsProcessed(state.iterations() * kVBuckets * state.range(0));
}

BENCHMARK(pass)->Name("FlushCost/pass")->Arg(1)->Arg(20)->UseManualTime()->Iterations(20);
BENCHMARK(flush<options::ItemCallback>)
        ->Name("FlushCost/item")
        ->Arg(100)
        ->Arg(10000)
        ->Arg(100000)
        ->UseManualTime();
BENCHMARK(flush<options::TransactionCallback>)
        ->Name("FlushCost/transaction")
        ->Arg(100)
        ->Arg(10000)
        ->Arg(100000)
        ->UseManualTime();
BENCHMARK(storeAlone)
        ->Name("FlushCost/store_alone")
        ->Arg(100)
        ->Arg(10000)
        ->Arg(100000)
        ->UseManualTime();

}  // namespace
}  // namespace kv

BENCHMARK_MAIN();
