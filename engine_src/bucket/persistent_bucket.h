// PersistentBucket: a Bucket whose documents are also on disk: one store and one flusher per shard
// (vBucket % shards).
//
// Life: construct (opens the stores), warmUp() once, startFlushing(); clients may come after
// warmUp(). Stop: no more clients, then persistAll(), then destroy. Destroying it without
// persistAll() is like a crash: what was not persisted is gone. Ownership: owns stores and
// flushers; the Executor must outlive it. Thread rules: as Bucket; the functions of its life from
// one thread. Memory: flushes and warm-up run bound to the bucket, the stores' own memory is
// charged to nobody.
//
// Promise: itemsToPersist() == 0 means that every mutation that was answered before the call is in
// the store and survives the death of the process, statesToPersist() == 0 the same of states and
// failover logs. The loss of power it survives when the store syncs at every commit, or from the
// next sync on (PersistenceConfig::syncInterval).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bucket/bucket.h"
#include "bucket/vb_flush_target.h"
#include "executor/executor.h"
#include "persistence/data_dir.h"
#include "persistence/flusher.h"
#include "persistence/rocks_store.h"

namespace kv {

struct PersistenceConfig {
    std::string dataDir;
    unsigned shards{2};
    RocksConfig rocks{};
    FlusherConfig flusher{};
    /// Time between two syncs of the stores; 0: none but at a clean stop.
    std::chrono::nanoseconds syncInterval{0};
};

struct WarmupResult {
    size_t vbuckets{0};    ///< with a stored state
    size_t documents{0};   ///< live ones, loaded
    size_t tombstones{0};  ///< stored deletions, not kept in memory
    bool clean{false};     ///< the last stop was clean (or the directory is new)
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
    /// Makes the store of a shard in a directory: RocksDB unless a test says otherwise.
    using StoreFactory = std::function<std::unique_ptr<KVStore>(const std::string& path)>;

    /// Opens the data directory. Throws StoreError.
    PersistentBucket(const BucketConfig& config, const PersistenceConfig& persistence,
                     Executor& executor, const StoreFactory& factory = {});
    ~PersistentBucket() override;

    /// Loads every stored document, state and failover log. Throws StoreError. After a stop that
    /// was not clean, active vBuckets begin a new history. vBuckets without a stored state stay
    /// Dead.
    WarmupResult warmUp();
    void startFlushing();
    /// Stops the flushers and stores everything that is queued. False when the store refuses; then
    /// data is lost.
    bool persistAll();

    size_t purgeTombstonesOf(Vbid vbid, const OpTime& now) override;
    [[nodiscard]] size_t itemsToPersist() const override;
    [[nodiscard]] size_t statesToPersist() const override;
    [[nodiscard]] Seqno persistedSeqno(Vbid vbid) const {
        return targets_[vbid.get()]->persistedSeqno();
    }
    /// The vBucket has a state in the store: after warm-up, the others are new here.
    [[nodiscard]] bool isStored(Vbid vbid) const { return targets_[vbid.get()]->isStored(); }
    /// For readers: backfill by seqno.
    KVStore& storeOf(Vbid vbid) { return *shardOf(vbid).store; }
    /// Asks the store for sizes: not for hot paths.
    [[nodiscard]] PersistenceStats persistenceStats() const;

  private:
    struct Shard {
        std::unique_ptr<KVStore> store;
        std::unique_ptr<Flusher> flusher;
        TaskPtr task;
    };

    void onMutation(VBucket& vbucket, Seqno seqno) noexcept override;
    void onStateChange(VBucket& vbucket, const OpTime& now) override;
    OpStatus findTombstone(Vbid vbid, std::string_view key,
                           std::optional<ItemMeta>& tombstone) override;
    /// By the store's rollback where it can, which may go back further, or else everything: the
    /// next seqno is 1 then.
    bool discardAbove(VBucket& vbucket, Seqno seqno, const PersistedVbState& left,
                      const OpTime& now, const FlushLock& lock) override;
    FlushLock lockForFlush(Vbid vbid) override { return targetOf(vbid).lockForFlush(); }
    void queueFlush(Vbid vbid) noexcept;
    void stopFlushing();
    void loadShard(Shard& shard, bool clean, WarmupResult& result);
    void loadVBucket(KVStore& store, Vbid vbid, bool clean, WarmupResult& result);
    /// Makes the vBucket's documents and log those of the scan.
    void loadDocuments(SeqnoScan& scan, VBucket& target, WarmupResult& result);
    Shard& shardOf(Vbid vbid) { return shards_[vbid.get() % shards_.size()]; }
    FlushTarget& targetOf(Vbid vbid) { return *targets_[vbid.get()]; }

    /// False when a store refuses.
    bool syncStores();

    Executor& executor_;
    const std::chrono::nanoseconds syncInterval_;
    DataDir dataDir_;
    std::vector<std::unique_ptr<VbFlushTarget>> targets_;
    std::vector<Shard> shards_;
    TaskPtr syncTask_;
};

}  // namespace kv
