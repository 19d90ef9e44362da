// VBucket: one partition of a bucket: its documents (HashTable), its log (CheckpointManager), its
// state and history.
//
// Ownership: owned by its Bucket, lives as long as it. Ephemeral vBuckets have a SequenceList too.
// Threads: client operations, background visits and the flusher's calls may run at the same time.
// The state changes only with every hash-bucket lock held, so an operation that has seen "active"
// under its lock keeps it until it is done: no seqno is given out after a vBucket stopped being
// active. Lock order: hash-bucket lock, sequence list, checkpoint manager. Listeners are told after
// the locks are released.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "bucket/bucket_config.h"
#include "bucket/failover_log.h"
#include "bucket/hash_table.h"
#include "bucket/key_locks.h"
#include "bucket/op_result.h"
#include "bucket/sequence_list.h"
#include "bucket/vb_state.h"
#include "checkpoint/checkpoint_manager.h"

namespace kv {

class VBucket;

/// Told of what a vBucket queued, with no lock held.
class MutationSink {
  public:
    virtual ~MutationSink() = default;
    virtual void onQueued(VBucket& vbucket, Seqno seqno) noexcept = 0;
    /// An operation found a document expired. The key's lock is held: count it, no more.
    virtual void onExpiredOnAccess() noexcept = 0;
};

class VBucket {
  public:
    /// `config` and `sink` outlive it. Starts dead and empty; a persistent one registers its
    /// persistence cursor.
    VBucket(Vbid vbid, BucketType type, const BucketConfig& config, MutationSink& sink);
    VBucket(const VBucket&) = delete;
    VBucket& operator=(const VBucket&) = delete;
    ~VBucket();

    // --- client operations; semantics at Bucket. NotMyVbucket unless active.
    OpResult get(std::string_view key, const OpTime& now);
    /// Asked for the tombstone of a key that is not in memory, with the key's lock held; anything
    /// but Ok ends the operation with that status.
    using FindTombstone = std::function<OpStatus(std::optional<ItemMeta>& tombstone)>;
    OpResult getMeta(std::string_view key, const OpTime& now,
                     const FindTombstone& findTombstone = {});
    /// getMeta of what is in memory, of a replica too: it expires where the active copy is.
    OpResult observe(std::string_view key, const OpTime& now);
    OpResult getAndTouch(std::string_view key, uint32_t exptime, const OpTime& now);
    OpResult getAndLock(std::string_view key, uint32_t seconds, const OpTime& now);
    OpResult unlock(std::string_view key, Cas cas, const OpTime& now);
    OpResult store(std::string_view key, StoreMode mode, BlobPtr value, const StoreArgs& args,
                   const OpTime& now);
    OpResult concat(std::string_view key, Concat where, std::string_view value, Cas cas,
                    const OpTime& now, size_t mostBytes);
    OpResult arithmetic(std::string_view key, const ArithmeticArgs& args, const OpTime& now);
    OpResult remove(std::string_view key, Cas cas, const OpTime& now);
    OpResult touch(std::string_view key, uint32_t exptime, const OpTime& now);
    OpResult storeVersion(std::string_view key, BlobPtr value, const VersionArgs& version,
                          const FindTombstone& findTombstone, const OpTime& now);
    /// A live document from the bucket at `position` on (32 random bits), wrapping round. Up to
    /// `skip` are passed before it: else of those that share a bucket only the first would ever be
    /// found.
    OpResult getRandom(uint32_t position, uint32_t skip, std::string& key, const OpTime& now);

    // --- replication: what another node decided, with its own cas and seqno. Replica and pending
    // only, and in the same term() as its stream was asked for in; else NotMyVbucket.
    /// A snapshot follows, which misses deletions up to `purged`, perhaps.
    OpStatus beginReplicated(uint64_t term, const SnapshotRange& snapshot, CheckpointType type,
                             const OpTime& now, Seqno purged = {});
    /// Applies one received change. `meta.seqno` must be above highSeqno().
    OpStatus applyReplicated(uint64_t term, std::string_view key, ItemOp op, const ItemMeta& meta,
                             BlobPtr value, const OpTime& now);

    /// Starts loading the fields that every operation touches.
    void prefetch() const {
        constexpr size_t kCacheLine = 64;
        const auto* bytes = reinterpret_cast<const char*>(this);
        for (size_t at = 0; at < sizeof(VBucket); at += kCacheLine) {
            __builtin_prefetch(bytes + at);
        }
    }

    // --- state
    [[nodiscard]] Vbid id() const { return vbid_; }
    [[nodiscard]] VbState state() const { return state_.load(std::memory_order_acquire); }
    /// Waits for running operations; becoming active begins a new history in the failover log, at
    /// the end of the last complete snapshot. That throws std::bad_alloc, and then changed nothing;
    /// no other state does.
    void setState(VbState state);
    /// Held by whoever changes the state while what he decided must stay true. Comes before every
    /// other lock.
    [[nodiscard]] std::unique_lock<std::mutex> lockState() { return std::unique_lock(stateMutex_); }
    /// Empty-handed while somebody else holds it.
    [[nodiscard]] std::unique_lock<std::mutex> tryLockState() {
        return {stateMutex_, std::try_to_lock};
    }
    /// What clear() needs: had before anything is given up that cannot be undone.
    struct EmptyRoom {
        HashTable::EmptyLines lines;
        std::unique_ptr<Checkpoint> checkpoint;
    };
    /// Throws std::bad_alloc.
    [[nodiscard]] EmptyRoom makeEmptyRoom() const;
    /// Forgets every document and all of the log; the next seqno follows `start`. State and history
    /// stay. With a room it does not fail; without one it throws std::bad_alloc, and then changed
    /// nothing.
    void clear(const CheckpointStart& start, const OpTime& now, EmptyRoom room);
    void clear(const CheckpointStart& start, const OpTime& now) {
        clear(start, now, makeEmptyRoom());
    }
    /// How often that happened: what was read before and after has nothing to do with each other.
    [[nodiscard]] uint64_t clears() const { return clears_.load(std::memory_order_acquire); }
    /// How often it was made active: what another node sent for an earlier term does not fit what
    /// is here, though it be a replica again.
    [[nodiscard]] uint64_t term() const { return term_.load(std::memory_order_acquire); }
    FailoverLog& failoverLog() { return failoverLog_; }
    [[nodiscard]] const FailoverLog& failoverLog() const { return failoverLog_; }
    [[nodiscard]] Seqno highSeqno() const { return checkpoints_.highSeqno(); }
    /// Highest seqno of a tombstone that no longer exists here: who has less than this has missed
    /// deletions.
    [[nodiscard]] Seqno purgedSeqno() const {
        return Seqno{purgedSeqno_.load(std::memory_order_acquire)};
    }

    /// Tombstones up to `seqno` may be gone from now on.
    void notePurged(Seqno seqno);
    [[nodiscard]] uint64_t maxDeletedRev() const {
        return maxDeletedRev_.load(std::memory_order_relaxed);
    }
    /// A tombstone of that revision exists nowhere, or only on disk.
    void noteDeletedRev(uint64_t rev);

    // --- background
    /// Turns expired documents into expirations; how many.
    size_t expirePass(const OpTime& now);
    /// Deletes every live document; how many. 0 unless active.
    size_t removeAll(const OpTime& now);
    /// Ephemeral: frees tombstones at least `ageSeconds` old that no reader needs; how many.
    size_t purgeTombstones(uint32_t ageSeconds, const OpTime& now);

    // --- persistence
    /// Warm-up: a stored document, clean; ignored when the key is known already (a client was
    /// faster).
    void loadStored(std::string_view key, ItemOp op, const ItemMeta& meta, BlobPtr value);
    /// The item is on disk: its StoredValue is clean unless it changed meanwhile; a tombstone
    /// leaves the hash table.
    void onPersisted(const Item& item);
    /// Puts a fetched value back into a document whose version is still `seqno`; false when it is
    /// not wanted any more.
    bool restoreValue(std::string_view key, Seqno seqno, BlobPtr value);

    // --- parts
    HashTable& hashTable() { return table_; }
    [[nodiscard]] const HashTable& hashTable() const { return table_; }
    CheckpointManager& checkpoints() { return checkpoints_; }
    [[nodiscard]] const CheckpointManager& checkpoints() const { return checkpoints_; }
    /// nullptr in a persistent bucket.
    SequenceList* sequence() { return sequence_.get(); }
    [[nodiscard]] const SequenceList* sequence() const { return sequence_.get(); }
    [[nodiscard]] const KeyLocks& keyLocks() const { return keyLocks_; }
    /// Bytes of checkpoints beyond what an empty vBucket has.
    [[nodiscard]] size_t checkpointMemory() const;

  private:
    struct Layout;
    using Guard = HashIndex::Guard;

    /// Tells the sink of the last seqno that was queued, when the operation's locks are gone:
    /// declare it before the guard.
    class Notice {
      public:
        explicit Notice(VBucket& vbucket) : vbucket_(vbucket) {}
        Notice(const Notice&) = delete;
        Notice& operator=(const Notice&) = delete;
        ~Notice() {
            if (seqno_ != Seqno{}) {
                vbucket_.sink_.onQueued(vbucket_, seqno_);
            }
        }
        void queued(Seqno seqno) { seqno_ = seqno; }

      private:
        VBucket& vbucket_;
        Seqno seqno_{};
    };

    /// What a mutation makes of a document.
    struct Change {
        ItemOp op{ItemOp::Mutation};
        uint32_t flags{0};
        uint32_t exptime{0};
        uint8_t datatype{0};
        BlobPtr value{};
    };

    /// Queues the change, then makes it in the hash table. `present` is the key's StoredValue or
    /// nullptr.
    QueueResult commit(const Guard& guard, StoredValue* present, std::string_view key,
                       Change change, Notice& notice, const OpTime& now);
    QueueResult queue(std::string_view key, ItemOp op, const ItemMeta& meta, const BlobPtr& value,
                      Seqno previous, const OpTime& now);
    /// Everything that a change of a document may fail for: had before its seqno, since a seqno
    /// without its document cannot be undone.
    struct Room {
        SequenceList::Guard listGuard{};
        StoredValuePtr fresh{};  ///< unless the present StoredValue is to be changed
        SequenceList::StaleRoom stale{};
    };
    /// `present` is the key's StoredValue or nullptr. Throws std::bad_alloc.
    [[nodiscard]] Room makeRoom(const Guard& guard, const StoredValue* present,
                                std::string_view key);
    /// Makes the change in the hash table. Does not fail.
    void put(const Guard& guard, StoredValue* present, Room& room, ItemOp op, const ItemMeta& meta,
             BlobPtr value) noexcept;
    void expire(const Guard& guard, StoredValue& value, Notice& notice, const OpTime& now);
    /// The live StoredValue among `found`; expires it when its time has come.
    StoredValue* live(const Guard& guard, StoredValue* found, Notice& notice, const OpTime& now);
    /// How most operations begin: the key's lock, the vBucket's state, the live document
    /// (KeyNotFound without one); then use(guard, document, notice).
    template <class Use>
    OpResult withLive(std::string_view key, const OpTime& now, Use use);
    /// Why a mutation with `cas` may not touch the document. A lock that the cas fits is opened by
    /// the mutation's commit().
    std::optional<OpStatus> refuse(StoredValue& value, Cas cas, const OpTime& now);
    [[nodiscard]] bool isLocked(StoredValue& value, const OpTime& now);
    /// Ends the document's lock, if it has one, whoever holds it. Every commit() does.
    void openLock(StoredValue& value);
    OpResult read(StoredValue& value, const OpTime& now);
    OpResult metaOf(StoredValue& value, const OpTime& now);
    [[nodiscard]] OpResult done(const QueueResult& queued) const;
    /// Whether what was sent for that term may be taken. The caller holds a hash-bucket lock.
    [[nodiscard]] bool follows(uint64_t term) const {
        const VbState state = state_.load(std::memory_order_relaxed);
        return (state == VbState::Replica || state == VbState::Pending) && term_ == term;
    }
    /// Relaxed: the caller holds a hash-bucket lock.
    [[nodiscard]] bool isActive() const {
        return state_.load(std::memory_order_relaxed) == VbState::Active;
    }

    // First what every operation reads and hardly any writes; what each mutation writes, the log,
    // is at least a line of the cache away (checked in vbucket.cc), or readers would wait for it.
    const Vbid vbid_;
    const bool persistent_;
    std::atomic<VbState> state_{VbState::Dead};
    const BucketConfig& config_;
    MutationSink& sink_;
    HashTable table_;
    std::unique_ptr<SequenceList> sequence_;
    std::mutex stateMutex_;
    std::atomic<uint64_t> clears_{0};
    std::atomic<uint64_t> term_{0};
    /// Highest revision among tombstones that are gone: a key that comes back continues above it.
    std::atomic<uint64_t> maxDeletedRev_{0};
    std::atomic<uint64_t> purgedSeqno_{0};
    CheckpointManager checkpoints_;
    size_t emptyCheckpointMemory_{0};
    KeyLocks keyLocks_;
    FailoverLog failoverLog_;
};

}  // namespace kv
