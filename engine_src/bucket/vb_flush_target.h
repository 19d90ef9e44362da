// VbFlushTarget: a VBucket as its shard's flusher sees it, and what of it is stored.
//
// Ownership: refers to the VBucket, which outlives it. Thread rules: persistedSeqno() and
// stateChanged() from any thread, the FlushTarget functions from the flusher.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "bucket/vbucket.h"
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

    /// State or failover log are not what is stored any more. The caller then queues the vBucket
    /// for a flush.
    void stateChanged() { stateChanges_.fetch_add(1, std::memory_order_acq_rel); }
    /// The last of these changes is stored. From any thread.
    [[nodiscard]] bool isStateStored() const {
        return storedChange_.load(std::memory_order_acquire) ==
               stateChanges_.load(std::memory_order_acquire);
    }
    /// What the store has, at warm-up and after a reset; the caller holds lockForFlush() or is
    /// alone.
    void assumeStored(const PersistedVbState& state);
    /// The store has documents that are not the vBucket's any more, and did not remove them: that
    /// comes before the next flush. The caller holds lockForFlush().
    void forgetBeforeFlush() { forgetFirst_ = true; }
    [[nodiscard]] Seqno persistedSeqno() const {
        return Seqno{persistedSeqno_.load(std::memory_order_acquire)};
    }
    /// The store knows this vBucket.
    [[nodiscard]] bool isStored() const { return isStored_.load(std::memory_order_acquire); }
    VBucket& vbucket() { return vbucket_; }

    /// The store has a tombstone of a deletion at that time. The caller holds lockForFlush() or is
    /// alone.
    void noteTombstone(uint32_t deletedAt) {
        oldestTombstone_.store(std::min(deletedAt, oldestTombstone()), std::memory_order_relaxed);
    }
    /// Time of the oldest deletion whose tombstone may be stored; UINT32_MAX: none is.
    [[nodiscard]] uint32_t oldestTombstone() const {
        return oldestTombstone_.load(std::memory_order_relaxed);
    }
    /// Removes the stored tombstones of deletions up to `until`, but for the last seqno, which must
    /// stay what it is. How many. Takes the flush lock; `store` is the vBucket's.
    size_t purgeStored(KVStore& store, uint32_t until);

  private:
    VBucket& vbucket_;
    std::mutex flushMutex_;
    PersistedVbState stored_;  ///< its seqnos and CAS; under flushMutex_
    bool forgetFirst_{false};  ///< under flushMutex_
    std::atomic<uint64_t> persistedSeqno_{0};
    std::atomic<uint64_t> stateChanges_{0};  ///< how many there were
    std::atomic<uint64_t> storedChange_{0};  ///< the newest that is stored
    uint64_t takenChange_{0};                ///< the newest that a flush took; under flushMutex_
    std::atomic<bool> isStored_{false};
    std::atomic<uint32_t> oldestTombstone_{UINT32_MAX};  ///< written under flushMutex_
    /// What oldestTombstone_ leaves out: a tombstone that was old and at the last seqno. Under
    /// flushMutex_.
    struct {
        Seqno seqno{};
        uint32_t deletedAt{UINT32_MAX};
    } heldBack_;
};

}  // namespace kv
