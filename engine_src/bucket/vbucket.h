// VBucket: one partition of a bucket: its documents (HashTable), its log (CheckpointManager), its
// state and history.
//
// Ownership: owned by its Bucket and lives as long as it. Ephemeral vBuckets also have a
// SequenceList. Threads: client operations, background visits and the flusher's calls may run at
// the same time. The state changes only with every hash-bucket lock held, so an operation that has
// seen "active" under its lock can rely on it until it is done: no seqno is assigned after a
// vBucket has stopped being active. Lock order: hash-bucket lock, sequence list, checkpoint
// manager. Listeners are notified of seqnos after the locks are released.
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
#include "checkpoint/checkpoint_manager.h"

namespace kv {

/// State of a vBucket on this node.
enum class VbState : uint8_t {
    Active = 1,   ///< serves clients
    Replica = 2,  ///< follows an active copy elsewhere
    Pending = 3,  ///< a takeover is in progress
    Dead = 4,     ///< not here
};

constexpr std::string_view toString(VbState state) {
    switch (state) {
        case VbState::Active:
            return "active";
        case VbState::Replica:
            return "replica";
        case VbState::Pending:
            return "pending";
        case VbState::Dead:
            return "dead";
    }
    return "unknown";
}

class VBucket;

/// Receives notifications of queued mutations, with no lock held.
class MutationSink {
  public:
    virtual ~MutationSink() = default;
    virtual void onQueued(VBucket& vbucket, Seqno seqno) noexcept = 0;
    /// An operation found an expired document. The key's lock is held: only count it.
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

    // --- client operations; Bucket documents them. NotMyVbucket unless active.
    OpResult get(std::string_view key, const OpTime& now);
    /// Finds the tombstone of a key that is not in memory, with the key's lock held. Any status but
    /// Ok ends the operation with that status.
    using FindTombstone = std::function<OpStatus(std::optional<ItemMeta>& tombstone)>;
    OpResult getMeta(std::string_view key, const OpTime& now,
                     const FindTombstone& findTombstone = {});
    /// getMeta of a document in memory, also on a replica: it expires where the active copy is.
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
    /// Returns a live document from the bucket at `position` on (32 random bits), wrapping round.
    /// Skips up to `skip` documents before it: otherwise only the first of those that share a
    /// bucket would ever be found.
    OpResult getRandom(uint32_t position, uint32_t skip, std::string& key, const OpTime& now);

    // --- replication of another node's mutations, with their cas and seqno. Only for replica and
    // pending, and only in the same term() in which the stream was requested; otherwise
    // NotMyVbucket.
    /// Announces a snapshot, in which deletions up to `purged` may be missing.
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
    /// Waits for running operations. Becoming active begins a new history in the failover log, at
    /// the end of the last complete snapshot; that may throw std::bad_alloc, without any change.
    /// Other states do not throw. Calls `changed`, which must not throw, if this is another state:
    /// with all hash-bucket locks held, so before any operation sees it.
    void setState(
            VbState state, const std::function<void()>& changed = [] {});
    /// Held by a thread that changes the state while its decision must stay valid. Comes before
    /// every other lock.
    [[nodiscard]] std::unique_lock<std::mutex> lockState() { return std::unique_lock(stateMutex_); }
    /// Returns an empty lock while another thread holds it.
    [[nodiscard]] std::unique_lock<std::mutex> tryLockState() {
        return {stateMutex_, std::try_to_lock};
    }
    /// The memory for clear(), allocated before anything is discarded that cannot be restored.
    struct ClearMemory {
        HashTable::EmptyLines lines;
        std::unique_ptr<Checkpoint> checkpoint;
    };
    /// Throws std::bad_alloc.
    [[nodiscard]] ClearMemory allocateClearMemory() const;
    /// Forgets every document and all of the log; the next seqno follows `start`. State and history
    /// stay. With `memory` it does not fail; without it throws std::bad_alloc, without any change.
    void clear(const CheckpointStart& start, const OpTime& now, ClearMemory memory);
    void clear(const CheckpointStart& start, const OpTime& now) {
        clear(start, now, allocateClearMemory());
    }
    /// Number of times that something may have left memory that is only in the store now: a
    /// persisted tombstone, or everything in clear(). Read it before the store, and compare it
    /// under the key's lock.
    [[nodiscard]] uint64_t drops() const { return drops_.load(std::memory_order_acquire); }
    /// Number of calls of clear(): documents read before and after it are unrelated.
    [[nodiscard]] uint64_t clears() const { return clears_.load(std::memory_order_acquire); }
    /// Number of times it was made active or cleared: messages that another node sent for an
    /// earlier term do not fit, even if this is a replica again.
    [[nodiscard]] uint64_t term() const { return term_.load(std::memory_order_acquire); }
    FailoverLog& failoverLog() { return failoverLog_; }
    [[nodiscard]] const FailoverLog& failoverLog() const { return failoverLog_; }
    [[nodiscard]] Seqno highSeqno() const { return checkpoints_.highSeqno(); }
    /// Highest seqno of a tombstone that no longer exists here: a reader below it has missed
    /// deletions.
    [[nodiscard]] Seqno purgedSeqno() const {
        return Seqno{purgedSeqno_.load(std::memory_order_acquire)};
    }

    /// The history of a source that this replica does not follow, because it would have lost its
    /// copy; none after a promotion or clear().
    [[nodiscard]] VbUuid refusedHistory() const {
        return VbUuid{refusedHistory_.load(std::memory_order_acquire)};
    }
    void setRefusedHistory(VbUuid uuid) {
        refusedHistory_.store(uuid.get(), std::memory_order_release);
    }

    /// Records that tombstones up to `seqno` may be gone from now on.
    void notePurged(Seqno seqno);
    [[nodiscard]] uint64_t maxDeletedRev() const {
        return maxDeletedRev_.load(std::memory_order_relaxed);
    }
    /// Records that a tombstone of that revision exists nowhere, or only on disk.
    void noteDeletedRev(uint64_t rev);

    // --- background
    /// Turns expired documents into expirations and returns how many. Forgets expired locks.
    size_t expirePass(const OpTime& now);
    /// Deletes every live document and returns how many; 0 unless active.
    size_t removeAll(const OpTime& now);
    /// Ephemeral: frees tombstones at least `ageSeconds` old that no reader needs, and returns how
    /// many.
    size_t purgeTombstones(uint32_t ageSeconds, const OpTime& now);

    // --- persistence
    /// Warm-up: adds a stored document, clean. If the key is already known, the higher seqno stays:
    /// a client was faster, or the store has two versions because an earlier build accepted damage.
    void loadStored(std::string_view key, ItemOp op, const ItemMeta& meta, BlobPtr value);
    /// Records that the item is on disk: its StoredValue becomes clean unless it has changed since;
    /// a tombstone leaves the hash table.
    void onPersisted(const Item& item);

    // --- parts
    HashTable& hashTable() { return table_; }
    [[nodiscard]] const HashTable& hashTable() const { return table_; }
    CheckpointManager& checkpoints() { return checkpoints_; }
    [[nodiscard]] const CheckpointManager& checkpoints() const { return checkpoints_; }
    /// nullptr in a persistent bucket.
    SequenceList* sequence() { return sequence_.get(); }
    [[nodiscard]] const SequenceList* sequence() const { return sequence_.get(); }
    [[nodiscard]] const KeyLocks& keyLocks() const { return keyLocks_; }
    /// Bytes of checkpoints beyond those of an empty vBucket.
    [[nodiscard]] size_t checkpointMemory() const;

  private:
    struct Layout;
    using Guard = HashIndex::Guard;

    /// Reports the last queued seqno to the sink after the operation's locks are released: declare
    /// it before the guard.
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

    /// The new fields of a document after a mutation.
    struct Change {
        ItemOp op{ItemOp::Mutation};
        uint32_t flags{0};
        uint32_t exptime{0};
        uint8_t datatype{0};
        BlobPtr value{};
    };

    /// Queues the change, then applies it to the hash table. `present` is the key's StoredValue or
    /// nullptr.
    QueueResult commit(const Guard& guard, StoredValue* present, std::string_view key,
                       Change change, Notice& notice, const OpTime& now);
    QueueResult queue(std::string_view key, ItemOp op, const ItemMeta& meta, const BlobPtr& value,
                      Seqno previous, const OpTime& now);
    /// The memory for a change of a document, allocated before its seqno is assigned: a seqno
    /// without its document cannot be undone.
    struct Room {
        SequenceList::Guard listGuard{};
        StoredValuePtr fresh{};  ///< unless the present StoredValue is changed in place
        SequenceList::StaleSlot stale{};
    };
    /// `present` is the key's StoredValue or nullptr. Throws std::bad_alloc.
    [[nodiscard]] Room makeRoom(const Guard& guard, const StoredValue* present,
                                std::string_view key);
    /// Applies the change to the hash table. Does not fail.
    void put(const Guard& guard, StoredValue* present, Room& room, ItemOp op, const ItemMeta& meta,
             BlobPtr value) noexcept;
    void expire(const Guard& guard, StoredValue& value, Notice& notice, const OpTime& now);
    /// Returns the live StoredValue among `found`; expires it if its time has come.
    StoredValue* live(const Guard& guard, StoredValue* found, Notice& notice, const OpTime& now);
    /// The common beginning of operations: takes the key's lock, checks the vBucket's state, finds
    /// the live document (KeyNotFound without one), then calls use(guard, document, notice).
    template <class Use>
    OpResult withLive(std::string_view key, const OpTime& now, Use use);
    /// Returns why a mutation with `cas` may not touch the document. If the cas fits the document's
    /// lock, the mutation's commit() opens the lock.
    std::optional<OpStatus> refuse(StoredValue& value, Cas cas, const OpTime& now);
    [[nodiscard]] bool isLocked(StoredValue& value, const OpTime& now);
    /// Ends the document's lock, if there is one, regardless of its holder. Every commit() does.
    void openLock(StoredValue& value);
    OpResult read(StoredValue& value, const OpTime& now);
    OpResult metaOf(StoredValue& value, const OpTime& now);
    [[nodiscard]] OpResult done(const QueueResult& queued) const;
    /// True if messages for that term may be applied. The caller holds a hash-bucket lock.
    [[nodiscard]] bool follows(uint64_t term) const {
        const VbState state = state_.load(std::memory_order_relaxed);
        return (state == VbState::Replica || state == VbState::Pending) && term_ == term;
    }
    /// Relaxed: the caller holds a hash-bucket lock.
    [[nodiscard]] bool isActive() const {
        return state_.load(std::memory_order_relaxed) == VbState::Active;
    }

    // First the fields that every operation reads and that are rarely written. The log, which each
    // mutation writes, is at least a cache line away (checked in vbucket.cc); otherwise readers
    // would wait for it.
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
    /// Highest revision among purged tombstones: a key that comes back continues above it.
    std::atomic<uint64_t> maxDeletedRev_{0};
    std::atomic<uint64_t> purgedSeqno_{0};
    std::atomic<uint64_t> refusedHistory_{0};
    std::atomic<uint64_t> drops_{0};
    CheckpointManager checkpoints_;
    size_t emptyCheckpointMemory_{0};
    KeyLocks keyLocks_;
    FailoverLog failoverLog_;
};

}  // namespace kv
