// KVStore: the documents and states of the vBuckets of one shard, on disk.
//
// A transaction: begin, any number of puts (each key once), end. commit() stores all transactions
// that have ended, each of another vBucket, with one write: everything of them, including the
// vBuckets' states, is stored, or nothing. Data for which commit() has returned true survives the
// death of the process; it survives the loss of power only if the store syncs (see the store's
// config).
//
// Threads: one thread writes at a time (the shard's flusher); readers may run on other threads at
// the same time and see only whole transactions. Errors: after a write error commit() returns
// false, the store stays usable and the transaction is gone; a read error (corruption, I/O) throws
// StoreError, because it must never look like a missing document. Memory: the store's own
// allocations are charged to no bucket.
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
    /// Reads the next document (including tombstones); returns false at the end. The views are
    /// valid until the next call.
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

    /// Opens a transaction. `bytesHint`: bytes of keys and values to come, to reserve once; 0 if
    /// unknown.
    virtual void begin(Vbid vbid, size_t bytesHint) = 0;
    /// Announces the items that will be put, in this order: the store may look up their older
    /// versions together. They must exist until the last of them is put. Only a hint: other puts
    /// are allowed.
    virtual void expect(std::span<const ItemPtr> /*items*/) {}
    /// Adds a mutation or deletion to the transaction; the store keeps no reference to the item.
    /// Returns whether the key was a live document before the transaction.
    virtual bool put(const Item& item) = 0;
    /// Announces that only this vBucket's state is missing: commit() stores the transaction.
    virtual void end(const PersistedVbState& state) = 0;
    /// Stores the transactions that have ended.
    virtual bool commit() = 0;
    /// Drops them, and the one that has not ended.
    virtual void abandon() = 0;
    bool endAndCommit(const PersistedVbState& state) {
        end(state);
        return commit();
    }
    /// Makes everything that was stored before the call survive the loss of power. Returns false on
    /// a write error. Any thread.
    virtual bool sync() = 0;
    /// Moves everything stored from the log, where a damaged byte loses all that follows it, to
    /// files in which it loses one block. Returns false on a write error; then the data stays in
    /// the log. Not to be repeated at once: RocksDB 9 does not recover while it is asked.
    virtual bool emptyLog() { return true; }

    /// Records that the histories of the vBuckets take account of the documents that were missing
    /// when the store was opened. Throws StoreError.
    virtual void forgetGaps() {}

    /// Stores only a vBucket's state. Returns false on a write error.
    virtual bool saveVbState(Vbid vbid, const PersistedVbState& state) = 0;
    [[nodiscard]] virtual std::optional<PersistedVbState> loadVbState(Vbid vbid) = 0;
    [[nodiscard]] virtual std::vector<Vbid> listPersistedVbuckets() = 0;
    /// Removes the vBucket's documents, with the same write that makes `left` its state: a reader
    /// that finds no state takes the vBucket for a new one. Returns false on a write error.
    virtual bool delVBucket(Vbid vbid, const PersistedVbState& left) = 0;

    /// Whether a lookup may wait for the disk.
    enum class Reads : uint8_t { Disk, MemoryOnly };
    enum class Lookup : uint8_t {
        Found,
        Missing,
        NotInMemory,  ///< the disk would have to be read
    };
    /// Calls `visit` with the document of `key` (also a tombstone), if there is one.
    template <class Visit>
    Lookup look(Vbid vbid, std::string_view key, Reads reads, Visit&& visit) {
        BucketMemory* const caller = BucketMemoryGuard::current();
        const NonBucketGuard guard;
        std::string buffer;
        StoredDoc doc;
        const Lookup found = read(vbid, key, reads, buffer, doc);
        if (found == Lookup::Found) {
            const BucketMemoryGuard callerAgain(caller);
            visit(static_cast<const StoredDoc&>(doc));
        }
        return found;
    }
    /// As look(), from disk; returns false if there is none.
    template <class Visit>
    bool get(Vbid vbid, std::string_view key, Visit&& visit) {
        return look(vbid, key, Reads::Disk, std::forward<Visit>(visit)) == Lookup::Found;
    }
    /// Returns a scan of the documents with from <= seqno <= to. Null if the vBucket has no stored
    /// state.
    [[nodiscard]] virtual std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from,
                                                                   Seqno to) = 0;
    /// Goes back to the last rollback point that is not above `seqno`: removes every document above
    /// it and makes it the high seqno. Returns false without any change if there is no such point;
    /// if one of those documents had replaced an older version, which is gone, or was a tombstone
    /// that has been removed; if they are too many for one write (the caller then starts the
    /// vBucket over); or on a write error.
    virtual bool rollback(Vbid vbid, Seqno seqno) = 0;
    /// Removes tombstones, by key and seqno, each its key's only version, and stores the state. No
    /// transaction of the vBucket may be open. Returns false on a write error.
    virtual bool removeTombstones(Vbid vbid,
                                  const std::vector<std::pair<std::string, Seqno>>& tombstones,
                                  const PersistedVbState& state) = 0;
    /// Returns the number of live documents of the vBucket. Counts them: O(documents).
    [[nodiscard]] virtual size_t countLive(Vbid vbid) = 0;
    [[nodiscard]] virtual KVStoreStats stats() = 0;
    /// Files of documents: those of the latest state, and those that only open scans still need.
    struct FileBytes {
        size_t current{0};
        size_t replaced{0};
    };
    [[nodiscard]] virtual FileBytes fileBytes() { return {}; }

  protected:
    /// Fills `doc` with views into `buffer`.
    virtual Lookup read(Vbid vbid, std::string_view key, Reads reads, std::string& buffer,
                        StoredDoc& doc) = 0;
};

}  // namespace kv
