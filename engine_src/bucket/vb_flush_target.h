// VbFlushTarget: a VBucket as its shard's flusher sees it, and what of it is stored.
//
// Ownership: refers to the VBucket, which outlives it. Thread rules: persistedSeqno() and
// stateChanged() from any thread, the FlushTarget functions from the flusher.
#pragma once

#include <atomic>
#include <mutex>

#include "bucket/vbucket.h"
#include "persistence/flush_target.h"

namespace kv {

class VbFlushTarget final : public FlushTarget {
  public:
    explicit VbFlushTarget(VBucket& vbucket) : vbucket_(vbucket) {}

    [[nodiscard]] Vbid vbid() const override { return vbucket_.id(); }
    [[nodiscard]] std::unique_lock<std::mutex> lockForFlush() override {
        return std::unique_lock(flushMutex_);
    }
    FlushBatch takeItemsToPersist(size_t limit) override;
    PersistedVbState stateToPersist() override;
    bool takeStateChange() override {
        return stateChanged_.exchange(false, std::memory_order_acq_rel);
    }
    void stateChangeFailed() override { stateChanged_.store(true, std::memory_order_release); }
    void persistedSet(const Item& item) override { vbucket_.onPersisted(item); }
    void persistedDelete(const Item& item) override { vbucket_.onPersisted(item); }
    void persisted(const PersistedVbState& state) override;
    void persistFailed() override { vbucket_.checkpoints().persistFailed(); }

    /// State or failover log are not what is stored any more. The caller then queues the vBucket
    /// for a flush.
    void stateChanged() { stateChanged_.store(true, std::memory_order_release); }
    /// What the store has, at warm-up and after a reset; the caller holds lockForFlush() or is
    /// alone.
    void assumeStored(const PersistedVbState& state);
    [[nodiscard]] Seqno persistedSeqno() const {
        return Seqno{persistedSeqno_.load(std::memory_order_acquire)};
    }
    /// The store knows this vBucket.
    [[nodiscard]] bool isStored() const { return isStored_.load(std::memory_order_acquire); }
    VBucket& vbucket() { return vbucket_; }

  private:
    VBucket& vbucket_;
    std::mutex flushMutex_;
    PersistedVbState stored_;  ///< its seqnos and CAS; under flushMutex_
    std::atomic<uint64_t> persistedSeqno_{0};
    std::atomic<bool> stateChanged_{false};
    std::atomic<bool> isStored_{false};
};

}  // namespace kv
