// Bucket: a named set of vBuckets with one memory quota, and every operation of a front-end thread
// on its data.
//
// Ownership: owns its vBuckets, which all exist as long as the bucket does (those that are not here
// are Dead). Threads: every operation may be called from any thread, at the same time. An operation
// never blocks on I/O: getMeta and storeVersion, which need the tombstone on disk of a key that is
// not in memory, answer WouldBlock, and the caller repeats them with the result of readStored().
// Memory: operations bind the bucket to the thread themselves, but the value that they return
// (OpResult::value) must be dropped under a BucketMemoryGuard of memory(). A front-end thread
// should hold one guard around a whole batch, and take a NonBucketGuard around data of its
// connections. Time: the caller reads `now` once per batch (OpTime::now()); it decides expiry, and
// CAS values follow it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/bucket_config.h"
#include "bucket/bucket_stats.h"
#include "bucket/op_result.h"
#include "bucket/seqno_listeners.h"
#include "bucket/vbucket.h"
#include "memory/bucket_memory.h"
#include "types/blob.h"
#include "types/ids.h"

namespace kv {

class CheckpointRemover;
class CursorDropper;

/// Share of the quota that old versions for the readers of sequence lists may use.
inline constexpr double kStaleShare = 0.05;

/// Counters of the bucket that are not sums over its vBuckets; relaxed, reset only by resetStats().
struct BucketCounters {
    std::atomic<uint64_t> tmpOomErrors{0};
    std::atomic<uint64_t> oomErrors{0};
    std::atomic<uint64_t> expiredOnAccess{0};
    std::atomic<uint64_t> expiredByPass{0};
    std::atomic<uint64_t> hashResizes{0};
};

class Bucket : private MutationSink {
  public:
    Bucket(const Bucket&) = delete;
    Bucket& operator=(const Bucket&) = delete;
    ~Bucket() override;

    /// Creates a bucket that lives in memory only. All vBuckets start Dead: call setVBucketState.
    static std::unique_ptr<Bucket> createEphemeral(const BucketConfig& config);

    // --- reading. Sets on Ok: value, flags, cas, datatype, exptime, seqno, revSeqno (number).
    OpResult get(Vbid vbid, std::string_view key, const OpTime& now);
    /// What the store has of a key that is not in memory.
    struct Stored {
        OpStatus status{OpStatus::Ok};  ///< TmpFail if it cannot be read
        std::optional<ItemMeta> tombstone{};
        uint64_t drops{0};  ///< of the vBucket, before the read: it is outdated if they differ
    };
    /// Reads the store. Waits for the disk, but holds no lock.
    [[nodiscard]] Stored readStored(Vbid vbid, std::string_view key);
    /// Also sets cas, flags, exptime, seqno, revSeqno (number), and `deleted` for a tombstone in
    /// memory or on disk; no value. WouldBlock if the disk is needed and `stored` is missing or
    /// outdated.
    OpResult getMeta(Vbid vbid, std::string_view key, const OpTime& now,
                     const Stored* stored = nullptr);
    /// get with a new expiry time, which is a mutation (new cas and seqno) unless the time is the
    /// same.
    OpResult getAndTouch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now);
    /// get that locks the key for `seconds` (0 = 15, at most 30): mutations of others answer Locked
    /// until unlock, a mutation with the returned cas, or the time-out. The cas is new.
    OpResult getAndLock(Vbid vbid, std::string_view key, uint32_t seconds, const OpTime& now);
    OpResult unlock(Vbid vbid, std::string_view key, Cas cas, const OpTime& now);
    /// Returns a random live document of an active vBucket; `key` receives its name. KeyNotFound if
    /// there is none.
    OpResult getRandom(std::string& key, const OpTime& now);

    // --- changing. Sets on Ok: cas, seqno, vbuuid.
    OpResult store(Vbid vbid, std::string_view key, StoreMode mode, std::string_view value,
                   const StoreArgs& args, const OpTime& now);
    /// As store(), for a value that already is a Blob (created under a guard of this bucket).
    OpResult store(Vbid vbid, std::string_view key, StoreMode mode, BlobPtr value,
                   const StoreArgs& args, const OpTime& now);
    /// TooBig if the joined value has more than `mostBytes`. Also sets its size (number).
    OpResult concat(Vbid vbid, std::string_view key, Concat where, std::string_view value, Cas cas,
                    const OpTime& now, size_t mostBytes = SIZE_MAX);
    /// Also sets `number`.
    OpResult arithmetic(Vbid vbid, std::string_view key, const ArithmeticArgs& args,
                        const OpTime& now);
    OpResult remove(Vbid vbid, std::string_view key, Cas cas, const OpTime& now);
    OpResult touch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now);
    /// Stores a version of another cluster unless the version here is newer (KeyExists). The
    /// version with the higher revision is newer; of equal revisions the one with the higher CAS,
    /// then expiry time, then flags. A deletion is a version like any other. WouldBlock as
    /// getMeta().
    OpResult storeVersion(Vbid vbid, std::string_view key, std::string_view value,
                          const VersionArgs& version, const OpTime& now,
                          const Stored* stored = nullptr);
    /// Deletes every document of every active vBucket, each as a deletion with its own seqno.
    OpResult flushAll(const OpTime& now);

    /// Starts loading what every operation on a vBucket touches. `vbid` must be in range.
    void prefetchVBucket(Vbid vbid) const { vbuckets_[vbid.get()]->prefetch(); }
    /// Starts loading the hash bucket and the lock of a key. For the keys of a batch, some
    /// operations ahead, after prefetchVBucket. `vbid` must be in range; `hash` is hashKey() of the
    /// key.
    void prefetchKey(Vbid vbid, uint64_t hash) const { vbucket(vbid).hashTable().prefetch(hash); }

    // --- vBuckets
    [[nodiscard]] uint16_t vbucketCount() const { return static_cast<uint16_t>(vbuckets_.size()); }
    [[nodiscard]] bool hasVBucket(Vbid vbid) const { return vbid.get() < vbuckets_.size(); }
    VBucket& vbucket(Vbid vbid) { return *vbuckets_[vbid.get()]; }
    [[nodiscard]] const VBucket& vbucket(Vbid vbid) const { return *vbuckets_[vbid.get()]; }
    /// NotMyVbucket if the number is out of range; with IfBusy::Return, WouldBlock while another
    /// thread changes the vBucket, which takes long in a rollback.
    enum class IfBusy : bool { Wait, Return };
    OpStatus setVBucketState(Vbid vbid, VbState state, const OpTime& now,
                             IfBusy ifBusy = IfBusy::Wait);
    /// Forgets everything of a dead vBucket, including its history, and leaves it dead. Invalid
    /// unless it is dead, WouldBlock while another thread changes it, TmpFail if the store refuses.
    OpStatus deleteVBucket(Vbid vbid, const OpTime& now);
    enum class RollBack : uint8_t { Done, NotReplica, StoreFailed };
    /// Discards everything that a replica has above `seqno`, or more, and notifies the listeners;
    /// its new high seqno is that of the remaining data. Does nothing if the vBucket is not (or no
    /// longer) a replica of that term. Throws std::bad_alloc without any change.
    RollBack rollBackReplica(Vbid vbid, uint64_t term, Seqno seqno, const OpTime& now);
    /// Replaces the history of a replica, and notifies the listeners if it is another one. Returns
    /// false without any change if the vBucket is not (or no longer) a replica of that term.
    bool adoptHistory(Vbid vbid, uint64_t term, std::vector<FailoverEntry> log, const OpTime& now);
    /// Records, also over restarts, that a replica in that term does not follow sources of the
    /// history `uuid` (VBucket::refusedHistory()).
    void refuseHistory(Vbid vbid, uint64_t term, VbUuid uuid, const OpTime& now);

    // --- background work: called by tasks, or directly by tests; each returns what it did
    /// Deletes expired documents of all active vBuckets.
    size_t expirePass(const OpTime& now);
    /// Resizes hash tables that have become too small or too large; one table at a time.
    size_t resizeHashTables();
    /// Frees tombstones past the purge age (ephemeral: in memory; persistent: on disk, it waits for
    /// the store) and returns how many. A DCP client that has not seen them all starts over.
    virtual size_t purgeTombstonesOf(Vbid vbid, const OpTime& now);
    /// As purgeTombstonesOf(), for all vBuckets.
    size_t purgeTombstones(const OpTime& now);
    /// Closes due checkpoints and frees those that no cursor needs. Returns how many were freed. If
    /// checkpoints take too much of the quota, or the bucket is above its high watermark, it also
    /// expels items that all cursors have passed and drops slow cursors
    /// (checkpoint/checkpoint_remover.h).
    size_t removeClosedCheckpoints(const OpTime& now);
    /// True if removeClosedCheckpoints() should run before its time. Cheap enough to call every 100
    /// ms.
    [[nodiscard]] bool needsCheckpointRecovery() const;
    /// Sets the object that is asked before a slow cursor is dropped; nullptr = none is dropped.
    /// When it returns, no call to the former one is running or will follow.
    void setCursorDropper(CursorDropper* dropper);

    /// The listeners that are notified of new seqnos.
    SeqnoListeners& listeners() { return listeners_; }

    /// The budget for old versions that readers of the sequence lists keep: a twentieth of the
    /// quota.
    StaleBudget& staleBudget() { return staleBudget_; }

    // --- figures
    [[nodiscard]] const std::string& name() const { return config_.name; }
    [[nodiscard]] const BucketConfig& config() const { return config_; }
    [[nodiscard]] BucketType type() const { return type_; }
    BucketMemory& memory() { return memory_; }
    [[nodiscard]] const BucketMemory& memory() const { return memory_; }
    [[nodiscard]] BucketStats stats() const { return readStats(vbuckets_); }
    [[nodiscard]] const BucketCounters& counters() const { return counters_; }
    void resetStats();
    /// Mutations that are queued for the disk and not yet persisted; 0 for an ephemeral bucket.
    [[nodiscard]] virtual size_t itemsToPersist() const;
    /// Number of vBuckets whose state or failover log is still to be stored.
    [[nodiscard]] virtual size_t statesToPersist() const { return 0; }
    /// Stores the state and failover log of a vBucket now, if the bucket is persistent: waits for
    /// the disk. Returns false if the store refuses; it is then tried again in the background.
    [[nodiscard]] virtual bool storeState(Vbid) { return true; }
    [[nodiscard]] size_t lowWatermarkBytes() const { return share(config_.lowWatermark); }
    [[nodiscard]] size_t highWatermarkBytes() const { return share(config_.highWatermark); }
    [[nodiscard]] size_t mutationThresholdBytes() const {
        return mutationThresholdBytes_.load(std::memory_order_relaxed);
    }
    void setQuota(size_t bytes);

  protected:
    Bucket(BucketType type, const BucketConfig& config);

    /// Called when a mutation of a vBucket was queued, with no lock held. Persistent buckets wake
    /// their flusher.
    virtual void onMutation(VBucket&, Seqno) noexcept {}
    /// Called when a vBucket changed its state, with no lock held. Persistent buckets store it.
    virtual void onStateChange(VBucket&, const OpTime&) {}
    enum class Disk : bool { Wait, Never };
    /// Finds the tombstone of a key that is no longer in memory, to resolve conflicts. TmpFail if
    /// it cannot be read, WouldBlock if the disk would have to be waited for.
    virtual OpStatus findTombstone(Vbid, std::string_view /*key*/, Disk, std::optional<ItemMeta>&) {
        return OpStatus::Ok;
    }
    /// While it is held, nothing of the vBucket is stored; empty if nothing is ever stored.
    using FlushLock = std::unique_lock<std::mutex>;
    virtual FlushLock lockForFlush(Vbid) { return {}; }
    /// Forgets at least everything that the vBucket has above `seqno`; `left` is what the store
    /// keeps if that is everything. The vBucket is dead during the call. Returns false without any
    /// change if the store refuses. `lock` is the vBucket's.
    virtual bool discardAbove(VBucket& vbucket, Seqno seqno, const PersistedVbState& left,
                              const OpTime& now, const FlushLock& lock);
    /// Frees the vBuckets. A derived class whose threads use them calls it in its destructor after
    /// stopping the threads.
    void destroyVBuckets();

  private:
    /// As findTombstone(), without waiting. The caller holds the key's lock.
    OpStatus findStored(Vbid vbid, std::string_view key, const Stored* stored,
                        std::optional<ItemMeta>& tombstone);
    /// True if background work will free documents, log entries or tombstones, so that the mutation
    /// may be tried again later.
    [[nodiscard]] bool canFreeMemory(const OpTime& now);
    [[nodiscard]] bool findFreeableMemory() const;
    /// Returns Ok, or why a mutation of `bytes` more is refused.
    OpStatus admit(Vbid vbid, std::string_view key, size_t valueBytes, size_t growth,
                   const OpTime& now);
    void onQueued(VBucket& vbucket, Seqno seqno) noexcept final {
        onMutation(vbucket, seqno);
        listeners_.notify(vbucket.id(), seqno);
    }
    void onExpiredOnAccess() noexcept final {
        counters_.expiredOnAccess.fetch_add(1, std::memory_order_relaxed);
    }
    [[nodiscard]] size_t share(double part) const {
        return static_cast<size_t>(part * static_cast<double>(memory_.quota()));
    }

    const BucketType type_;
    const BucketConfig config_;
    BucketMemory memory_;
    std::atomic<size_t> mutationThresholdBytes_;
    BucketCounters counters_;
    std::atomic<uint64_t> freeableCheckedNs_{0};
    std::atomic<bool> freeable_{false};
    StaleBudget staleBudget_;
    std::vector<std::unique_ptr<VBucket>> vbuckets_;
    std::unique_ptr<CheckpointRemover> checkpointRemover_;
    std::mutex checkpointRemoverMutex_;      ///< one run at a time
    CursorDropper* cursorDropper_{nullptr};  ///< guarded by checkpointRemoverMutex_
    SeqnoListeners listeners_;
};

}  // namespace kv
