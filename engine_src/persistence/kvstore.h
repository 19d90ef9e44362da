// KVStore: the documents and states of the vBuckets of one shard, on disk.
//
// A transaction: begin, any number of puts (each key once), end. commit() stores all transactions
// that have ended, each of another vBucket, with one write: everything of them, the vBuckets'
// states included, is stored or nothing is. What commit() has answered true for survives the death
// of the process; it survives the loss of power only when the store syncs (see the store's config).
//
// Thread rules: one thread writes at a time (the shard's flusher); readers may run on other threads
// at the same time and see whole transactions only. Errors: a write error is commit() == false, the
// store stays usable and the transaction is gone; a read error (corruption, I/O) throws StoreError,
// for it must never look like a missing document. Memory: what the store allocates for itself is
// charged to no bucket.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/bucket_memory.h"
#include "persistence/store_error.h"
#include "persistence/stored_types.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

/// Reads one vBucket's documents in seqno order from an unchanging snapshot. One thread at a time.
class SeqnoScan {
  public:
    SeqnoScan() = default;
    SeqnoScan(const SeqnoScan&) = delete;
    SeqnoScan& operator=(const SeqnoScan&) = delete;
    virtual ~SeqnoScan() = default;
    // A scan belongs to no bucket, whatever its user is bound to.
    static void* operator new(size_t size) {
        const NonBucketGuard guard;
        return ::operator new(size);
    }
    static void operator delete(void* memory, size_t size) {
        const NonBucketGuard guard;
        ::operator delete(memory, size);
    }
    /// The next document (tombstones included), or false at the end. The views live until the next
    /// call.
    virtual bool next(StoredDoc& doc) = 0;
    /// The vBucket's state in the same snapshot.
    [[nodiscard]] virtual const PersistedVbState& state() const = 0;
};

class KVStore {
  public:
    KVStore() = default;
    KVStore(const KVStore&) = delete;
    KVStore& operator=(const KVStore&) = delete;
    virtual ~KVStore() = default;

    /// Opens a transaction. `bytesHint`: bytes of keys and values to come, to reserve once; 0 when
    /// unknown.
    virtual void begin(Vbid vbid, size_t bytesHint) = 0;
    /// Which items will be put, in this order: the store may look for their older versions in one
    /// go. They stay until the last of them is put. A hint: other puts are as good.
    virtual void expect(std::span<const ItemPtr> /*items*/) {}
    /// Adds a mutation or deletion to the transaction; the store keeps no reference to the item.
    /// Answers whether the key was a live document before the transaction.
    virtual bool put(const Item& item) = 0;
    /// Nothing more comes for this vBucket but its state: commit() is to store the transaction.
    virtual void end(const PersistedVbState& state) = 0;
    /// Stores the transactions that have ended.
    virtual bool commit() = 0;
    /// Drops them, and the one that has not ended.
    virtual void abandon() = 0;
    bool endAndCommit(const PersistedVbState& state) {
        end(state);
        return commit();
    }
    /// Everything that was stored before the call survives the loss of power from now on. False on
    /// a write error. Any thread.
    virtual bool sync() = 0;

    /// Stores a vBucket's state alone. False on a write error.
    virtual bool saveVbState(Vbid vbid, const PersistedVbState& state) = 0;
    [[nodiscard]] virtual std::optional<PersistedVbState> loadVbState(Vbid vbid) = 0;
    [[nodiscard]] virtual std::vector<Vbid> listPersistedVbuckets() = 0;
    /// Removes the vBucket's documents, with the same write that makes `left` its state: who finds
    /// no state takes the vBucket for a new one. False on a write error.
    virtual bool delVBucket(Vbid vbid, const PersistedVbState& left) = 0;

    /// Calls `visit` with the document of `key` (a tombstone too); false when there is none.
    template <class Visit>
    bool get(Vbid vbid, std::string_view key, Visit&& visit) {
        BucketMemory* const caller = BucketMemoryGuard::current();
        const NonBucketGuard guard;
        std::string buffer;
        StoredDoc doc;
        if (!read(vbid, key, buffer, doc)) {
            return false;
        }
        const BucketMemoryGuard callerAgain(caller);
        visit(static_cast<const StoredDoc&>(doc));
        return true;
    }
    /// Documents with from <= seqno <= to. Null when the vBucket has no state stored.
    [[nodiscard]] virtual std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from,
                                                                   Seqno to) = 0;
    /// Goes back to the last rollback point that is not above `seqno`: removes every document above
    /// it and makes it the high seqno. False, with nothing changed, when there is none, when one of
    /// those documents had replaced an older version, which is gone, or was a tombstone that has
    /// been removed, when there are too many of them for one write (the caller then starts the
    /// vBucket over), or on a write error.
    virtual bool rollback(Vbid vbid, Seqno seqno) = 0;
    /// Removes tombstones, by key and seqno, each its key's only version, and stores the state. No
    /// transaction of the vBucket is open. False on a write error.
    virtual bool removeTombstones(Vbid vbid,
                                  const std::vector<std::pair<std::string, Seqno>>& tombstones,
                                  const PersistedVbState& state) = 0;
    /// Live documents of the vBucket. Counts: O(documents).
    [[nodiscard]] virtual size_t countLive(Vbid vbid) = 0;
    [[nodiscard]] virtual KVStoreStats stats() = 0;

  protected:
    /// Fills `doc` with views into `buffer`.
    virtual bool read(Vbid vbid, std::string_view key, std::string& buffer, StoredDoc& doc) = 0;
};

}  // namespace kv
