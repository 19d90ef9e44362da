// Bucket: a named set of vBuckets with one memory quota; everything a front-end thread may ask of
// the data.
//
// Ownership: owns its vBuckets, which all exist as long as the bucket does (those that are not here
// are Dead). Threads: every operation may be called from any thread, at the same time. An operation
// never blocks on I/O, but for those that a tombstone on disk has a say in (getMeta and
// storeVersion of a key that is not in memory). Memory: operations bind the bucket to the thread
// themselves, but what they return (OpResult::value) must be dropped under a BucketMemoryGuard of
// memory(): a front-end thread should hold one guard around a whole batch, and take a
// NonBucketGuard around what belongs to its connections. Time: `now` is read once per batch by the
// caller (OpTime::now()); expiry is decided by it and CAS values follow it.
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
#include "bucket/vb_state.h"
#include "bucket/vbucket.h"
#include "memory/bucket_memory.h"
#include "types/blob.h"
#include "types/ids.h"

namespace kv {

class CheckpointRemover;
class CursorDropper;

/// Counters of the bucket that are not sums over its vBuckets; relaxed, never reset except by
/// resetStats().
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

    /// A bucket that lives in memory only. All vBuckets start Dead: call setVBucketState.
    static std::unique_ptr<Bucket> createEphemeral(const BucketConfig& config);

    // --- reading. Sets on Ok: value, flags, cas, datatype, exptime, seqno.
    OpResult get(Vbid vbid, std::string_view key, const OpTime& now);
    /// Also sets cas, flags, exptime, seqno, revSeqno (number) and `deleted` for a tombstone, in
    /// memory or on disk; no value.
    OpResult getMeta(Vbid vbid, std::string_view key, const OpTime& now);
    /// get with a new expiry time, which is a mutation of its own (new cas and seqno) unless the
    /// time is the same.
    OpResult getAndTouch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now);
    /// get that locks the key for `seconds` (0 = 15, at most 30): others' mutations answer Locked
    /// until unlock, a mutation with the returned cas, or the time-out. The cas is new.
    OpResult getAndLock(Vbid vbid, std::string_view key, uint32_t seconds, const OpTime& now);
    OpResult unlock(Vbid vbid, std::string_view key, Cas cas, const OpTime& now);
    /// A random live document of an active vBucket; `key` receives its name. KeyNotFound when there
    /// is none.
    OpResult getRandom(std::string& key, const OpTime& now);

    // --- changing. Sets on Ok: cas, seqno, vbuuid.
    OpResult store(Vbid vbid, std::string_view key, StoreMode mode, std::string_view value,
                   const StoreArgs& args, const OpTime& now);
    /// The same with a value that already is a Blob (created under a guard of this bucket).
    OpResult store(Vbid vbid, std::string_view key, StoreMode mode, BlobPtr value,
                   const StoreArgs& args, const OpTime& now);
    /// TooBig when the joined value has more than `mostBytes`.
    OpResult concat(Vbid vbid, std::string_view key, Concat where, std::string_view value, Cas cas,
                    const OpTime& now, size_t mostBytes = SIZE_MAX);
    /// Sets also `number`.
    OpResult arithmetic(Vbid vbid, std::string_view key, const ArithmeticArgs& args,
                        const OpTime& now);
    OpResult remove(Vbid vbid, std::string_view key, Cas cas, const OpTime& now);
    OpResult touch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now);
    /// Stores a version that another cluster made unless the one here is newer (KeyExists). Newer
    /// is what has the higher revision; of equals the higher CAS, then expiry time, then flags. A
    /// deletion is a version as any other.
    OpResult storeVersion(Vbid vbid, std::string_view key, std::string_view value,
                          const VersionArgs& version, const OpTime& now);
    /// The same with a value that already is a Blob (created under a guard of this bucket).
    OpResult storeVersion(Vbid vbid, std::string_view key, BlobPtr value,
                          const VersionArgs& version, const OpTime& now);
    /// Deletes every document of every active vBucket, each as a deletion with its own seqno.
    OpResult flushAll(const OpTime& now);

    /// Starts loading what every operation on a vBucket touches. `vbid` must be in range.
    void prefetchVBucket(Vbid vbid) const { vbuckets_[vbid.get()]->prefetch(); }
    /// Starts loading the hash bucket and the lock of a key: for the keys of a batch, some
    /// operations ahead, after prefetchVBucket. `vbid` must be in range, `hash` is hashKey() of the
    /// key.
    void prefetchKey(Vbid vbid, uint64_t hash) const { vbucket(vbid).hashTable().prefetch(hash); }

    // --- vBuckets
    [[nodiscard]] uint16_t vbucketCount() const { return static_cast<uint16_t>(vbuckets_.size()); }
    [[nodiscard]] bool hasVBucket(Vbid vbid) const { return vbid.get() < vbuckets_.size(); }
    VBucket& vbucket(Vbid vbid) { return *vbuckets_[vbid.get()]; }
    [[nodiscard]] const VBucket& vbucket(Vbid vbid) const { return *vbuckets_[vbid.get()]; }
    /// NotMyVbucket when the number is out of range; with IfBusy::Return, WouldBlock while somebody
    /// else changes the vBucket, which a rollback does for long.
    enum class IfBusy : bool { Wait, Return };
    OpStatus setVBucketState(Vbid vbid, VbState state, const OpTime& now,
                             IfBusy ifBusy = IfBusy::Wait);
    /// Forgets all of a dead vBucket, its history too; Invalid unless it is dead, WouldBlock while
    /// somebody else changes it, TmpFail when the store refuses. It stays dead.
    OpStatus deleteVBucket(Vbid vbid, const OpTime& now);
    enum class RollBack : uint8_t { Done, NotReplica, StoreFailed };
    /// Gives up what a replica has above `seqno`, or more, and tells the listeners; its high seqno
    /// is what is left. Nothing is done to a vBucket that is no replica of that term (any more).
    /// Throws std::bad_alloc, and it is a replica then as before.
    RollBack rollBackReplica(Vbid vbid, uint64_t term, Seqno seqno, const OpTime& now);
    /// A replica's history is this one from now on; false, and nothing done, when it is no replica
    /// of that term (any more).
    bool adoptHistory(Vbid vbid, uint64_t term, std::vector<FailoverEntry> log, const OpTime& now);

    // --- background work: called by tasks, or by hand in tests; each returns what it did
    /// Deletes expired documents of all active vBuckets.
    size_t expirePass(const OpTime& now);
    /// Resizes hash tables that have become too small or too large; one table at a time.
    size_t resizeHashTables();
    /// Frees tombstones past the purge age (ephemeral: in memory; persistent: on disk, it waits for
    /// the store). A DCP client that has seen less than they say starts over. How many.
    virtual size_t purgeTombstonesOf(Vbid vbid, const OpTime& now);
    /// The same of all vBuckets.
    size_t purgeTombstones(const OpTime& now);
    /// Closes due checkpoints and frees those that no cursor needs; how many were freed. When
    /// checkpoints take too much of the quota, or the bucket is above its high watermark, also
    /// expels what all cursors have passed and drops slow cursors
    /// (checkpoint/checkpoint_remover.h).
    size_t removeClosedCheckpoints(const OpTime& now);
    /// A reason to call removeClosedCheckpoints() before its time. Cheap enough for every 100 ms.
    [[nodiscard]] bool needsCheckpointRecovery() const;
    /// Who is asked before a slow cursor is dropped; nullptr = nobody: none is dropped. When it
    /// returns, no call to the former one is running or will follow.
    void setCursorDropper(CursorDropper* dropper);

    /// Who is told of new seqnos.
    SeqnoListeners& listeners() { return listeners_; }

    // --- figures
    [[nodiscard]] const std::string& name() const { return config_.name; }
    [[nodiscard]] const BucketConfig& config() const { return config_; }
    [[nodiscard]] BucketType type() const { return type_; }
    BucketMemory& memory() { return memory_; }
    [[nodiscard]] const BucketMemory& memory() const { return memory_; }
    [[nodiscard]] BucketStats stats() const { return readStats(vbuckets_); }
    [[nodiscard]] const BucketCounters& counters() const { return counters_; }
    void resetStats();
    /// Mutations queued for the disk and not yet persisted; 0 for an ephemeral bucket.
    [[nodiscard]] virtual size_t itemsToPersist() const;
    /// vBuckets whose state or failover log is still to be stored.
    [[nodiscard]] virtual size_t statesToPersist() const { return 0; }
    [[nodiscard]] size_t lowWatermarkBytes() const { return share(config_.lowWatermark); }
    [[nodiscard]] size_t highWatermarkBytes() const { return share(config_.highWatermark); }
    [[nodiscard]] size_t mutationThresholdBytes() const {
        return mutationThresholdBytes_.load(std::memory_order_relaxed);
    }
    void setQuota(size_t bytes);

  protected:
    Bucket(BucketType type, const BucketConfig& config);

    /// A mutation of a vBucket was queued; no lock is held. Persistent buckets wake their flusher.
    virtual void onMutation(VBucket&, Seqno) noexcept {}
    /// A vBucket changed its state; no lock is held. Persistent buckets store it.
    virtual void onStateChange(VBucket&, const OpTime&) {}
    /// The tombstone of a key that is not in memory any more, for conflicts; TmpFail when it cannot
    /// be known. May wait for the disk.
    virtual OpStatus findTombstone(Vbid, std::string_view /*key*/, std::optional<ItemMeta>&) {
        return OpStatus::Ok;
    }
    /// While it is held nothing of the vBucket is stored; empty where nothing ever is.
    using FlushLock = std::unique_lock<std::mutex>;
    virtual FlushLock lockForFlush(Vbid) { return {}; }
    /// Forgets at least what the vBucket has above `seqno`; `left` is what the store is to know of
    /// it when that is everything. It is dead meanwhile; false when the store refuses, and then
    /// nothing has changed. `lock` is the vBucket's.
    virtual bool discardAbove(VBucket& vbucket, Seqno seqno, const PersistedVbState& left,
                              const OpTime& now, const FlushLock& lock);
    /// Frees the vBuckets; a derived class whose threads use them calls it after stopping those, in
    /// its destructor.
    void destroyVBuckets();

  private:
    /// Documents, log entries or tombstones that background work will free: the mutation may be
    /// tried again later.
    [[nodiscard]] bool canFreeMemory(const OpTime& now);
    [[nodiscard]] bool findFreeableMemory() const;
    /// Ok, or why a mutation of `bytes` more is refused.
    OpStatus admit(Vbid vbid, std::string_view key, size_t valueBytes, size_t growth,
                   const OpTime& now);
    void onQueued(VBucket& vbucket, Seqno seqno) noexcept final {
        onMutation(vbucket, seqno);
        listeners_.tell(vbucket.id(), seqno);
    }
    void onExpiredOnAccess() noexcept final {
        counters_.expiredOnAccess.fetch_add(1, std::memory_order_relaxed);
    }
    OpResult putVersion(Vbid vbid, std::string_view key, BlobPtr value, const VersionArgs& version,
                        const OpTime& now);
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
    std::vector<std::unique_ptr<VBucket>> vbuckets_;
    std::unique_ptr<CheckpointRemover> checkpointRemover_;
    std::mutex checkpointRemoverMutex_;      ///< one run at a time
    CursorDropper* cursorDropper_{nullptr};  ///< under checkpointRemoverMutex_
    SeqnoListeners listeners_;
};

}  // namespace kv
