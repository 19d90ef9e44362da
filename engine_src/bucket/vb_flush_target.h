// VbFlushTarget: a VBucket as the flusher of its shard sees it, with the record of what is stored.
//
// Ownership: refers to the VBucket, which outlives it. Threads: persistedSeqno() and stateChanged()
// from any thread, the FlushTarget functions from the flusher.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "bucket/vbucket.h"
#include "options/mutation.h"
#include "persistence/flush_target.h"
#include "persistence/kvstore.h"

namespace kv {

class VbFlushTarget final : public FlushTarget {
  public:
    explicit VbFlushTarget(VBucket& vbucket) : vbucket_(vbucket) {}

    [[nodiscard]] Vbid vbid() const override { return vbucket_.id(); }
    [[nodiscard]] std::unique_lock<std::mutex> lockForFlush() override {
        return std::unique_lock(flushMutex_);
    }
    [[nodiscard]] std::unique_lock<std::mutex> tryLockForFlush() override {
        return {flushMutex_, std::try_to_lock};
    }
    bool prepare(KVStore& store) override;
    FlushBatch takeItemsToPersist(size_t limit, size_t limitBytes) override;
    PersistedVbState stateToPersist() override;
    bool takeStateChange() override {
        takenChange_ = stateChanges_.load(std::memory_order_acquire);
        return takenChange_ != storedChange_.load(std::memory_order_relaxed);
    }
    void stateChangeStored() override {
        storedChange_.store(takenChange_, std::memory_order_release);
    }
    void persistedSet(const Item& item) override { vbucket_.onPersisted(item); }
    void persistedDelete(const Item& item) override {
        vbucket_.onPersisted(item);
        noteTombstone(item.exptime());
    }
    void persisted(const PersistedVbState& state) override;
    void persistFailed() override { vbucket_.checkpoints().persistence().persistFailed(); }

    /// Records that the state or the failover log differs from the stored one. The caller then
    /// queues the vBucket for a flush.
    void stateChanged() { stateChanges_.fetch_add(1, std::memory_order_acq_rel); }
    /// True if the last of these changes is stored. Any thread.
    [[nodiscard]] bool isStateStored() const {
        return storedChange_.load(std::memory_order_acquire) ==
               stateChanges_.load(std::memory_order_acquire);
    }
    /// Stores the state and the failover log, if they have changed. Takes the flush lock; `store`
    /// is the vBucket's. Returns false if the store refuses.
    bool storeState(KVStore& store);
    /// Sets the content of the store, at warm-up and after a reset. The caller holds lockForFlush()
    /// or is the only user.
    void assumeStored(const PersistedVbState& state);
    /// Records whether the store still has documents that are no longer the vBucket's: they are
    /// removed before the next flush. The caller holds lockForFlush().
    void setMustForget(bool must) { forgetFirst_ = must; }
    [[nodiscard]] bool mustForget() const { return forgetFirst_; }
    [[nodiscard]] Seqno persistedSeqno() const {
        return options::mutated(options::Mutation::PersistedTooEarly)
                       ? vbucket_.highSeqno()
                       : Seqno{persistedSeqno_.load(std::memory_order_acquire)};
    }
    /// True if the store knows this vBucket.
    [[nodiscard]] bool isStored() const { return isStored_.load(std::memory_order_acquire); }
    VBucket& vbucket() { return vbucket_; }

    /// Records that the store has a tombstone of that time. The caller holds lockForFlush() or is
    /// the only user.
    void noteTombstone(uint32_t deletedAt) {
        oldestTombstone_.store(std::min(deletedAt, oldestTombstone()), std::memory_order_relaxed);
    }
    /// Time of the oldest deletion whose tombstone may be stored; UINT32_MAX if there is none.
    [[nodiscard]] uint32_t oldestTombstone() const {
        return oldestTombstone_.load(std::memory_order_relaxed);
    }
    /// Removes the stored tombstones of deletions up to `until`, except that of the last seqno,
    /// which must not change. Returns how many. Takes the flush lock; `store` is the vBucket's.
    size_t purgeStored(KVStore& store, uint32_t until);

  private:
    VBucket& vbucket_;
    std::mutex flushMutex_;
    PersistedVbState stored_;  ///< its seqnos and CAS; guarded by flushMutex_
    bool forgetFirst_{false};  ///< guarded by flushMutex_
    std::atomic<uint64_t> persistedSeqno_{0};
    std::atomic<uint64_t> stateChanges_{0};  ///< number of changes
    std::atomic<uint64_t> storedChange_{0};  ///< the newest stored change
    uint64_t takenChange_{0};  ///< the newest change that a flush took; guarded by flushMutex_
    std::atomic<bool> isStored_{false};
    std::atomic<uint32_t> oldestTombstone_{UINT32_MAX};  ///< guarded by flushMutex_ for writing
    /// The exception to oldestTombstone_: an old tombstone at the last seqno. Guarded by
    /// flushMutex_.
    struct {
        Seqno seqno{};
        uint32_t deletedAt{UINT32_MAX};
    } heldBack_;
};

}  // namespace kv
