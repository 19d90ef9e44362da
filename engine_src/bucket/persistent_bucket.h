// PersistentBucket: a Bucket whose documents are also on disk, with one store and one flusher per
// shard (vBucket % shards).
//
// Start: construct (opens the stores), warmUp() once, startFlushing(); clients may connect after
// warmUp(). Stop: disconnect clients, persistAll(), destroy. Destruction without persistAll() is
// like a crash: data that was not persisted is lost. Ownership: owns stores and flushers; the
// Executor outlives it. Threads: as Bucket; the functions for start and stop from one thread.
// Memory: flushes and warm-up run bound to the bucket; the stores' own memory is charged to no
// bucket.
//
// Guarantee: itemsToPersist() == 0 means that every mutation that was answered before the call is
// in the store and survives the death of the process; statesToPersist() == 0 means the same for
// states and failover logs. They survive a loss of power if the store syncs at every commit, or
// after the next sync (PersistenceConfig::syncInterval).
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bucket/bucket.h"
#include "bucket/vb_flush_target.h"
#include "executor/executor.h"
#include "persistence/config.h"
#include "persistence/data_dir.h"
#include "persistence/flusher.h"
#include "persistence/kvstore.h"

namespace kv {

struct PersistenceConfig {
    std::string dataDir;
    unsigned shards{2};
    RocksConfig rocks{};
    FlusherConfig flusher{};
    /// Time between two syncs of the stores; 0: only at a clean stop.
    std::chrono::nanoseconds syncInterval{0};
    /// Time for which a stop tries again to store what a store refuses. RocksDB looks every 5 s
    /// whether a full disk has room again.
    std::chrono::milliseconds stopPatience{10'000};
    /// Starts with the remaining data if the stores have less than the last clean stop left in
    /// them.
    bool acceptLoss{false};
};

struct WarmupResult {
    size_t vbuckets{0};       ///< with a stored state
    size_t documents{0};      ///< live ones, loaded
    size_t tombstones{0};     ///< stored deletions, not kept in memory
    bool clean{false};        ///< the last stop was clean, and here; or the directory is new
    size_t lostVBuckets{0};   ///< different from what the last clean stop left
    size_t lostDocuments{0};  ///< live documents fewer than the last clean stop left
    uint64_t cutOffBytes{0};  ///< of the stores' logs that could not be read after a crash
    std::chrono::nanoseconds duration{0};
};

/// Sums over the flushers.
struct PersistenceStats {
    uint64_t totalPersisted{0};  ///< ep_total_persisted
    uint64_t totalEnqueued{0};   ///< ep_total_enqueued
    uint64_t inserts{0};
    uint64_t updates{0};
    uint64_t deletes{0};
    uint64_t flushes{0};
    uint64_t failedFlushes{0};
    uint64_t failedItems{0};
    KVStoreStats store;
};

class PersistentBucket final : public Bucket {
  public:
    /// Creates the store of a shard in a directory: RocksDB, except in tests.
    using StoreFactory = std::function<std::unique_ptr<KVStore>(const std::string& path)>;

    /// Opens the data directory. Throws StoreError.
    PersistentBucket(const BucketConfig& config, const PersistenceConfig& persistence,
                     Executor& executor, const StoreFactory& factory = {});
    ~PersistentBucket() override;

    /// Loads every stored document, state and failover log. After a stop that was not clean, and in
    /// a copy of the directory, active vBuckets begin a new history. vBuckets without a stored
    /// state stay Dead. Throws StoreError, also if anything that the last clean stop left is
    /// missing. With acceptLoss such vBuckets forget their history instead, so that nobody can
    /// continue from lost data.
    WarmupResult warmUp();
    void startFlushing();
    /// Stops the flushers and stores everything that is queued. Returns false if the store refuses;
    /// data is lost then.
    bool persistAll();

    size_t purgeTombstonesOf(Vbid vbid, const OpTime& now) override;
    [[nodiscard]] size_t itemsToPersist() const override;
    [[nodiscard]] size_t statesToPersist() const override;
    [[nodiscard]] bool storeState(Vbid vbid) override;
    [[nodiscard]] Seqno persistedSeqno(Vbid vbid) const {
        return targets_[vbid.get()]->persistedSeqno();
    }
    /// True if the vBucket has a state in the store: after warm-up, the others are new here.
    [[nodiscard]] bool isStored(Vbid vbid) const { return targets_[vbid.get()]->isStored(); }
    /// For readers: backfill by seqno.
    KVStore& storeOf(Vbid vbid) { return *shardOf(vbid).store; }
    /// Returns the size of the files of all stores. Not for front-end threads.
    [[nodiscard]] KVStore::FileBytes storedBytes() const;
    /// Asks the stores for sizes: not for hot paths.
    [[nodiscard]] PersistenceStats persistenceStats() const;

  private:
    struct Shard {
        std::unique_ptr<KVStore> store;
        std::unique_ptr<Flusher> flusher;
        TaskPtr task;
    };

    void onMutation(VBucket& vbucket, Seqno seqno) noexcept override;
    void onStateChange(VBucket& vbucket, const OpTime& now) override;
    OpStatus findTombstone(Vbid vbid, std::string_view key, Disk disk,
                           std::optional<ItemMeta>& tombstone) override;
    /// Uses the store's rollback if possible, which may go back further; otherwise discards
    /// everything, and the next seqno is 1.
    bool discardAbove(VBucket& vbucket, Seqno seqno, const PersistedVbState& left,
                      const OpTime& now, const FlushLock& lock) override;
    FlushLock lockForFlush(Vbid vbid) override { return targetOf(vbid).lockForFlush(); }
    void queueFlush(Vbid vbid) noexcept;
    void stopFlushing();
    /// The stored content of a shard.
    struct Loaded {
        WarmupResult sums;
        std::vector<StoredVBucket> vbuckets;
    };
    void loadShard(Shard& shard, bool clean, Loaded& loaded);
    StoredVBucket loadVBucket(KVStore& store, Vbid vbid, bool clean, WarmupResult& sums);
    /// Compares with the record of the last clean stop.
    void checkLoaded(const std::vector<StoredVBucket>& found, WarmupResult& result);
    /// Gives a vBucket that has lost data a new history, and stores it. Throws StoreError.
    void beginWithoutHistory(const StoredVBucket& left);
    /// Returns the record that a clean stop leaves.
    [[nodiscard]] std::vector<StoredVBucket> storedVBuckets() const;
    /// Replaces the vBucket's documents and log by those of the scan.
    void loadDocuments(SeqnoScan& scan, VBucket& target, WarmupResult& result);
    Shard& shardOf(Vbid vbid) { return shards_[vbid.get() % shards_.size()]; }
    FlushTarget& targetOf(Vbid vbid) { return *targets_[vbid.get()]; }

    /// Syncs every store. Returns false if one refuses.
    bool syncStores();
    [[nodiscard]] std::unique_ptr<KVStore> openStore(const std::string& path, RocksConfig config,
                                                     const StoreFactory& factory) const;
    enum class CanGoOn : bool { No, Yes };
    /// Returns what the user can do when something is damaged or missing.
    [[nodiscard]] std::string advice(CanGoOn withAcceptLoss) const;
    [[noreturn]] void rethrowWithAdvice(const std::exception_ptr& error) const;

    Executor& executor_;
    const std::chrono::nanoseconds syncInterval_;
    const std::chrono::milliseconds stopPatience_;
    const bool acceptLoss_;
    DataDir dataDir_;
    std::vector<std::unique_ptr<VbFlushTarget>> targets_;
    std::vector<Shard> shards_;
    TaskPtr syncTask_;
};

}  // namespace kv
