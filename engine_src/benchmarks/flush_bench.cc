// FlushVBucket: the cost of one flush of a vBucket, in memory and in time.
//
//   FlushVBucket/<store>/<mode>/<items>
//   store: rocksdb, rocksdb-fsync (an fsync at every commit), or discard, which takes the documents
//          and drops them: the rest is the flusher's own share
//   mode:  insert (an empty vBucket) or replace (every key is already stored)
//
// Keys are "key<i>", values one byte, as historically. Counters: PeakFlushBytes is the highest heap
// use during the flush above that right before it, PeakBytesPerItem the same per item.
//
// Difference from the historic benchmark: the peak is reset right before the timed part of every
// iteration, so that neither the load nor an earlier iteration leaks into it, and the largest of
// all iterations is reported; every size but the largest runs more than once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/pass.h"
#include "benchmarks/registry.h"
#include "bucket/persistent_bucket.h"
#include "bucket/vbucket.h"
#include "executor/fake_executor.h"
#include "memory/memory_peak.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

constexpr Vbid kVbid{0};

/// A store that takes every transaction and keeps nothing. It answers for each key that it was, or
/// was not, stored before.
class DiscardStore final : public KVStore {
  public:
    explicit DiscardStore(bool known) : known_(known) {}
    void begin(Vbid, size_t) override {}
    bool put(const Item& item) override {
        benchmark::DoNotOptimize(item.key().data());
        return known_;
    }
    void end(const PersistedVbState&) override {}
    bool commit() override { return true; }
    void abandon() override {}
    bool sync() override { return true; }
    bool saveVbState(Vbid, const PersistedVbState&) override { return true; }
    std::optional<PersistedVbState> loadVbState(Vbid) override { return std::nullopt; }
    std::vector<Vbid> listPersistedVbuckets() override { return {}; }
    bool delVBucket(Vbid, const PersistedVbState&) override { return true; }
    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid, Seqno, Seqno) override { return nullptr; }
    bool rollback(Vbid, Seqno) override { return false; }
    bool removeTombstones(Vbid, const std::vector<std::pair<std::string, Seqno>>&,
                          const PersistedVbState&) override {
        return false;
    }
    size_t countLive(Vbid) override { return 0; }
    KVStoreStats stats() override { return {}; }

  private:
    Lookup read(Vbid, std::string_view, Reads, std::string&, StoredDoc&) override {
        return Lookup::Missing;
    }
    bool known_;
};

enum class Store { Rocks, RocksFsync, Discard };
enum class Mode { Insert, Replace };

/// One vBucket whose flusher runs on request.
class Node {
  public:
    Node(Store store, Mode mode, size_t items) : items_(items) {
        BucketConfig config;
        config.vbuckets = 1;
        config.quotaBytes = size_t{8} << 30;
        config.checkpoint.maxItems = 1'000'000'000;
        config.checkpoint.period = std::chrono::hours(24);
        PersistenceConfig persistence;
        persistence.dataDir = directory_.path();
        persistence.shards = 1;
        persistence.rocks.sync = store == Store::RocksFsync;
        PersistentBucket::StoreFactory factory;
        if (store == Store::Discard) {
            factory = [mode](const std::string&) {
                return std::make_unique<DiscardStore>(mode == Mode::Replace);
            };
        }
        bucket_ = std::make_unique<PersistentBucket>(config, persistence, executor_, factory);
        bucket_->warmUp();
        bucket_->startFlushing();
        activate();
    }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node() = default;

    /// Empties the vBucket, in memory and in the store.
    void reset() {
        bucket_->setVBucketState(kVbid, VbState::Dead, OpTime::now());
        if (bucket_->deleteVBucket(kVbid, OpTime::now()) != OpStatus::Ok) {
            throw std::runtime_error("the store cannot forget the vBucket");
        }
        activate();
    }
    /// Sets every document once.
    bool load() {
        const OpTime now = OpTime::now();
        StoreArgs args;
        args.datatype = 1;
        for (size_t i = 0; i < items_; ++i) {
            if (!bucket_->store(kVbid, "key" + std::to_string(i), StoreMode::Set, "x", args, now)
                         .ok()) {
                return false;
            }
        }
        return bucket_->itemsToPersist() == items_;
    }
    /// Runs the flusher's task until everything is stored. Returns false if the store keeps
    /// refusing.
    bool flush() {
        for (int runs = 0; runs < 1000 && left() != 0; ++runs) {
            executor_.advance(FlusherConfig{}.interval);
        }
        return left() == 0;
    }
    [[nodiscard]] size_t left() const { return bucket_->itemsToPersist(); }

  private:
    void activate() {
        bucket_->setVBucketState(kVbid, VbState::Active, OpTime::now());
        bucket_->vbucket(kVbid).hashTable().resize(
                static_cast<uint32_t>(std::max<size_t>(items_, 47)));
        executor_.advance(FlusherConfig{}.interval);  // stores the state itself
    }

    size_t items_;
    TempDir directory_;
    FakeExecutor executor_;
    std::unique_ptr<PersistentBucket> bucket_;
};

/// Flushes per pass: as many as a node serves before the next pass gets a new one.
int64_t flushes(size_t items) {
    return items >= 1'000'000 ? 1 : items >= 10'000 ? 10 : 100;
}

void flushVBucket(benchmark::State& state, Store store, Mode mode, size_t items) {
    MemoryPeak peak;
    const auto name = std::to_string(static_cast<int>(store)) + "/" +
                      std::to_string(static_cast<int>(mode)) + "/" + std::to_string(items);
    Node& node = bench::Pass::current().open<Node>(name, flushes(items), [&] {
        auto made = std::make_unique<Node>(store, mode, items);
        if (mode == Mode::Replace && !(made->load() && made->flush())) {
            throw std::runtime_error("the first load failed");
        }
        return made;
    });
    int64_t highest = 0;
    for (auto _ : state) {
        state.PauseTiming();
        if (mode == Mode::Insert) {
            node.reset();
        }
        if (!node.load()) {
            state.SkipWithError("loading failed");
            break;
        }
        const int64_t base = peak.current();
        peak.resetMax();
        state.ResumeTiming();
        const bool stored = node.flush();
        state.PauseTiming();
        highest = std::max(highest, peak.max() - base);
        if (!stored) {
            state.SkipWithError("not everything was stored");
            break;
        }
        state.ResumeTiming();
    }
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(items));
    state.counters["PeakFlushBytes"] = static_cast<double>(highest);
    state.counters["PeakBytesPerItem"] = static_cast<double>(highest) / static_cast<double>(items);
    bench::Pass::current().advance(static_cast<int64_t>(state.iterations()));
}

void registerAll() {
    for (const auto& [storeName, store] :
         {std::pair{"rocksdb", Store::Rocks}, std::pair{"rocksdb-fsync", Store::RocksFsync},
          std::pair{"discard", Store::Discard}}) {
        for (const auto& [modeName, mode] :
             {std::pair{"insert", Mode::Insert}, std::pair{"replace", Mode::Replace}}) {
            for (const size_t items : {size_t{1}, size_t{100}, size_t{10'000}, size_t{1'000'000}}) {
                const auto name = std::string("FlushVBucket/") + storeName + "/" + modeName + "/" +
                                  std::to_string(items);
                bench::addPass(name, flushes(items), flushVBucket, store, mode, items);
            }
        }
    }
}

const bool kRegistered = (registerAll(), true);

}  // namespace
}  // namespace kv
