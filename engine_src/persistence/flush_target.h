// FlushTarget: the functions of a vBucket that the flusher needs.
//
// Ownership: the flusher only holds references; a target outlives its flusher's task. Threads:
// called from the flusher's thread, one flush of a vBucket at a time; the bucket's memory is bound
// to that thread.
#pragma once

#include <mutex>
#include <vector>

#include "persistence/stored_types.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class KVStore;

/// The items and the snapshot of one flush.
struct FlushBatch {
    std::vector<ItemPtr>
            items;  ///< any order; a key may occur several times, its highest seqno counts
    SnapshotRange snapshot{};  ///< the snapshot that contains the highest seqno
    bool more{false};          ///< a limit was reached
};

class FlushTarget {
  public:
    FlushTarget() = default;
    FlushTarget(const FlushTarget&) = delete;
    FlushTarget& operator=(const FlushTarget&) = delete;
    virtual ~FlushTarget() = default;

    [[nodiscard]] virtual Vbid vbid() const = 0;
    /// Held during a flush, and while the vBucket's stored data is reset.
    [[nodiscard]] virtual std::unique_lock<std::mutex> lockForFlush() = 0;
    /// As lockForFlush(), without waiting; returns an empty lock if another thread holds it.
    [[nodiscard]] virtual std::unique_lock<std::mutex> tryLockForFlush() = 0;
    /// Called before everything else of a flush; returns false if nothing can be stored now.
    virtual bool prepare(KVStore& /*store*/) { return true; }
    /// Takes unstored items in consistent parts until there are `limit` items or one more part
    /// would exceed `limitBytes`. Exactly one persisted() or persistFailed() follows each take that
    /// is not empty.
    virtual FlushBatch takeItemsToPersist(size_t limit, size_t limitBytes) = 0;
    /// Returns the state to store: current state and failover log, seqnos and CAS as stored last.
    virtual PersistedVbState stateToPersist() = 0;
    /// Returns true if state or failover log have changed and that is not stored yet. Called before
    /// stateToPersist().
    virtual bool takeStateChange() = 0;
    /// Records that the state change that was taken is stored.
    virtual void stateChangeStored() = 0;

    /// Records that the mutation is stored: its StoredValue is clean if it still has this CAS;
    /// otherwise a newer one will follow.
    virtual void persistedSet(const Item& item) = 0;
    /// Records that the deletion is stored: its tombstone may leave the hash table if it still has
    /// this CAS.
    virtual void persistedDelete(const Item& item) = 0;
    /// Records that everything taken is stored, with this state.
    virtual void persisted(const PersistedVbState& state) = 0;
    /// Records that nothing of it is stored: the next take returns it again.
    virtual void persistFailed() = 0;
};

}  // namespace kv
