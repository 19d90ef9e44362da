// FlushTarget: what the flusher needs of a vBucket.
//
// Ownership: the flusher holds references only; a target must outlive its flusher's task. Thread
// rules: called from the flusher's thread, one flush of a vBucket at a time; the bucket's memory is
// bound to that thread.
#pragma once

#include <mutex>
#include <vector>

#include "persistence/stored_types.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class KVStore;

/// What one flush has to store.
struct FlushBatch {
    std::vector<ItemPtr>
            items;  ///< any order; a key may occur several times, its highest seqno counts
    SnapshotRange snapshot{};  ///< the snapshot that the highest seqno lies in
    bool more{false};          ///< a limit was reached
};

class FlushTarget {
  public:
    FlushTarget() = default;
    FlushTarget(const FlushTarget&) = delete;
    FlushTarget& operator=(const FlushTarget&) = delete;
    virtual ~FlushTarget() = default;

    [[nodiscard]] virtual Vbid vbid() const = 0;
    /// Held during a flush; whoever resets the vBucket's stored data holds it meanwhile.
    [[nodiscard]] virtual std::unique_lock<std::mutex> lockForFlush() = 0;
    /// The same without waiting; owns nothing when somebody else has it.
    [[nodiscard]] virtual std::unique_lock<std::mutex> tryLockForFlush() = 0;
    /// Comes before everything else of a flush; false when nothing can be stored now.
    virtual bool prepare(KVStore& /*store*/) { return true; }
    /// Takes what is not stored yet, in parts that are whole, until there are `limit` items or one
    /// part more would be beyond `limitBytes`. A take that is not empty is answered by exactly one
    /// persisted() or persistFailed().
    virtual FlushBatch takeItemsToPersist(size_t limit, size_t limitBytes) = 0;
    /// The state to store: state and failover log of now, seqnos and CAS as stored last.
    virtual PersistedVbState stateToPersist() = 0;
    /// True when state or failover log have changed and that is not stored yet. Asked before
    /// stateToPersist().
    virtual bool takeStateChange() = 0;
    /// The state change that was taken is stored.
    virtual void stateChangeStored() = 0;

    /// The mutation is stored: its StoredValue is clean if it still has this CAS, else a newer one
    /// is on its way.
    virtual void persistedSet(const Item& item) = 0;
    /// The deletion is stored: its tombstone may leave the hash table if it still has this CAS.
    virtual void persistedDelete(const Item& item) = 0;
    /// Everything taken is stored, with this state.
    virtual void persisted(const PersistedVbState& state) = 0;
    /// Nothing of it is: the next take gives it again.
    virtual void persistFailed() = 0;
};

}  // namespace kv
