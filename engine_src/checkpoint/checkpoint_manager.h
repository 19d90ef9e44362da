// CheckpointManager: the mutation log of one vBucket. Gives every mutation its seqno and CAS and
// keeps the recent ones for the flusher and the DCP streams, which read through cursors.
//
// Ownership: one per vBucket, owned by it. The CheckpointConfig must outlive it; items are shared
// (ItemPtr). Thread rules: thread-safe; one mutex (the queue lock) per manager, taken inside every
// call. Lock order: hash-bucket lock, then queue lock; nothing is called while the queue lock is
// held. Items are freed outside the lock where a call can free many of them.
//
// Retention: a manager without cursors (an ephemeral bucket without replication) keeps nothing;
// seqnos and CAS are still assigned and a cursor registered later is told to backfill. A cursor
// never rests at the end of a closed checkpoint: it steps into the next one at once, so reference
// counts and checkpoint ids are always exact.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_config.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/checkpoint_results.h"
#include "checkpoint/cursor.h"
#include "checkpoint/extracted_checkpoints.h"
#include "options/checkpoint_extract.h"
#include "options/cursor_drop.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

/// Everything that no build switch touches.
class CheckpointManagerBase {
  public:
    CheckpointManagerBase(const CheckpointManagerBase&) = delete;
    CheckpointManagerBase& operator=(const CheckpointManagerBase&) = delete;

    // --- writers
    // -----------------------------------------------------------------------------------------------------

    /// Assigns seqno (+1) and CAS (max(last + 1, coarseNowNs)) to the item and queues it. The
    /// caller holds the hash-bucket lock of the key. `previous`: seqno of the key's StoredValue (a
    /// tombstone's too), 0 when there is none; that is what de-duplicates. `coarseNowNs`:
    /// wall-clock nanoseconds, may lag by milliseconds. Allocation failure leaves the manager
    /// unchanged.
    QueueResult queueDirty(ItemPtr item, Seqno previous, GenerateSeqno, GenerateCas,
                           uint64_t coarseNowNs);

    /// The same for a caller that has not made an Item yet: when nothing would be retained, assigns
    /// seqno and CAS and is done; otherwise empty, and the caller makes the item and calls
    /// queueDirty. Both generated.
    std::optional<QueueResult> assignOnly(uint64_t coarseNowNs);

    /// The tombstone's StoredValue left the hash table after its deletion was persisted; a later
    /// mutation of the key comes with previous = 0. The caller holds the hash-bucket lock of the
    /// key.
    void noteTombstoneRemoved(std::string_view key, Seqno seqno);

    /// Replica: a snapshot marker. Opens a checkpoint for it (or extends the open one when
    /// `extend`). A marker that comes in the middle of a snapshot is for the rest of it: the
    /// snapshot keeps its beginning, since nothing before its end is consistent.
    void createSnapshot(SnapshotRange snapshot, CheckpointType type, bool extend,
                        uint64_t coarseNowNs);

    [[nodiscard]] Seqno highSeqno() const {
        return Seqno{highSeqno_.load(std::memory_order_acquire)};
    }
    [[nodiscard]] Cas maxCas() const;
    /// A CAS that no mutation gets: the key locks' are from the same clock.
    [[nodiscard]] Cas newCas(uint64_t coarseNowNs);
    /// Range of the snapshot that the high seqno lies in.
    [[nodiscard]] SnapshotRange currentSnapshot() const;
    /// The vBucket becomes active: what was received of a snapshot is all that there will be of it.
    /// Returns the last seqno up to which the log is consistent (the high seqno unless a snapshot
    /// was under way, else the seqno before that snapshot).
    Seqno beginActive(uint64_t coarseNowNs);

    // --- cursors
    // -----------------------------------------------------------------------------------------------------

    /// Registers a cursor for a reader that has everything up to `lastSeen`. A cursor of that name
    /// is replaced.
    CursorRegistration registerCursor(const std::string& name, Seqno lastSeen);
    /// Removes it; false when it is not registered (dropped meanwhile). Its checkpoints may now be
    /// removable.
    bool removeCursor(const CursorPtr& cursor);
    [[nodiscard]] CursorPtr findCursor(std::string_view name) const;
    /// Reads on from the cursor: whole checkpoints until at least `limit` items. Empty when the
    /// cursor was removed. With a byte limit it stops in the middle of a closed checkpoint, whose
    /// snapshot does not change any more; an open one that is longer is closed for that, as long as
    /// there may be more checkpoints.
    CursorItems getItemsForCursor(const CursorPtr& cursor, size_t limit,
                                  size_t limitBytes = SIZE_MAX);
    /// Live items the cursor has not read yet. O(checkpoints after the cursor + entries of one).
    [[nodiscard]] size_t itemsLeft(const CursorPtr& cursor) const;

    // --- persistence
    // -------------------------------------------------------------------------------------------------

    /// Registers the persistence cursor at the start of the log. At most once, before the first
    /// mutation.
    void registerPersistenceCursor();
    [[nodiscard]] bool hasPersistenceCursor() const;
    /// Reads with the persistence cursor and leaves the backup cursor where it was. One flush at a
    /// time.
    CursorItems takeItemsToPersist(size_t limit);
    /// The items of the last take are stored: drops the backup cursor.
    void persisted();
    /// They are not: the persistence cursor goes back to where the backup cursor is.
    void persistFailed();
    /// Items that queueDirty accepted and persisted() has not confirmed. Any thread, no lock.
    [[nodiscard]] size_t unpersisted() const {
        return unpersisted_.load(std::memory_order_acquire);
    }

    // --- memory
    // ------------------------------------------------------------------------------------------------------

    /// Closes the open checkpoint when it is old enough, for vBuckets that get no more writes.
    void closeIfDue(uint64_t coarseNowNs);
    /// Frees what every cursor has passed in the oldest checkpoint that has a cursor. Returns the
    /// bytes freed.
    size_t expel();
    /// Bytes of checkpoints and their items, without extracted ones that are already freed. Any
    /// thread, no lock.
    [[nodiscard]] size_t memory() const {
        return allocated_.load(std::memory_order_relaxed) -
               released_.load(std::memory_order_relaxed);
    }
    /// Drops every item and every cursor but the persistence cursor (vBucket reset); the next seqno
    /// follows `start`.
    void clear(const CheckpointStart& start, uint64_t coarseNowNs);

    [[nodiscard]] CheckpointStats stats() const;
    [[nodiscard]] Vbid vbid() const { return vbid_; }

    // What a policy of options/ sees, queue lock held.
    class State {
      public:
        explicit State(const CheckpointManagerBase& manager) : manager_(manager) {}
        [[nodiscard]] Checkpoint* oldest() const { return manager_.list_.oldest(); }
        [[nodiscard]] Checkpoint* open() const { return manager_.list_.newest(); }
        [[nodiscard]] const CheckpointCursor* special() const {
            return manager_.backupActive_ ? manager_.backup_.get() : manager_.persistence_.get();
        }
        /// All registered cursors, persistence and an active backup included.
        [[nodiscard]] const std::vector<CursorPtr>& cursors() const { return manager_.cursors_; }

      private:
        const CheckpointManagerBase& manager_;
    };

  protected:
    CheckpointManagerBase(Vbid vbid, const CheckpointConfig& config, const CheckpointStart& start,
                          uint64_t coarseNowNs);
    ~CheckpointManagerBase() = default;

    mutable std::mutex queueLock_;
    CheckpointList list_;  ///< never empty: the last one is open

  private:
    friend class ExtractedCheckpoints;

    void openCheckpoint(SnapshotRange snapshot, CheckpointType type, uint64_t nowNs);
    [[nodiscard]] bool shouldClose(uint64_t nowNs) const;
    [[nodiscard]] Cas nextCas(uint64_t nowNs);
    [[nodiscard]] SnapshotRange snapshotOfHigh() const;
    [[nodiscard]] bool isPartial(const SnapshotRange& snapshot) const {
        return highSeqno() < snapshot.end;
    }
    void normalise(CheckpointCursor& cursor);
    void compactOpen();
    [[nodiscard]] size_t countFrom(const CheckpointCursor& cursor) const;
    /// Bytes of the cursor's checkpoint that it has not read, as soon as they are more than enough.
    [[nodiscard]] static size_t bytesLeft(const CheckpointCursor& cursor, size_t enough);
    CursorItems read(CheckpointCursor& cursor, size_t limit, size_t limitBytes);
    CursorItems readPart(CheckpointCursor& cursor, size_t limitBytes);
    bool eraseCursor(const CheckpointCursor* cursor);
    void publishHigh(Seqno seqno) { highSeqno_.store(seqno.get(), std::memory_order_release); }
    void addMemory(size_t bytes) {
        allocated_.store(allocated_.load(std::memory_order_relaxed) + bytes,
                         std::memory_order_relaxed);
    }
    void releaseMemory(size_t bytes) { released_.fetch_add(bytes, std::memory_order_relaxed); }
    void setUnpersisted(size_t items) { unpersisted_.store(items, std::memory_order_release); }

    const CheckpointConfig& config_;
    std::vector<CursorPtr> cursors_;
    CursorPtr persistence_;
    CursorPtr backup_;  ///< made once, in cursors_ only while backupActive_
    bool backupActive_{false};
    const Vbid vbid_;
    bool replica_{false};  ///< the last mutation or snapshot came from an active copy elsewhere
    size_t taken_{0};      ///< items of the flush in progress
    SnapshotRange
            lastSnapshot_{};  ///< where the high seqno lies while the open checkpoint is empty
    uint64_t maxCas_{0};
    std::atomic<uint64_t> highSeqno_{0};
    std::atomic<size_t> unpersisted_{0};  ///< written under the queue lock
    std::atomic<size_t> allocated_{0};    ///< bytes ever taken; written under the queue lock
    std::atomic<size_t> released_{0};     ///< bytes ever freed; written by whoever frees
};

template <class DropPolicy, class ExtractPolicy>
class BasicCheckpointManager final : public CheckpointManagerBase {
  public:
    using Drop = DropPolicy;
    using Extract = ExtractPolicy;

    BasicCheckpointManager(Vbid vbid, const CheckpointConfig& config,
                           const CheckpointStart& start = {}, uint64_t coarseNowNs = 0)
        : CheckpointManagerBase(vbid, config, start, coarseNowNs) {}

    /// The cursors that hold back checkpoints which persistence no longer needs.
    [[nodiscard]] std::vector<CursorPtr> getListOfCursorsToDrop() const {
        const std::lock_guard lock(queueLock_);
        return DropPolicy::select(State(*this));
    }

    /// Takes the closed checkpoints before the lowest cursor out of the list.
    [[nodiscard]] ExtractedCheckpoints extractClosedUnrefCheckpoints() {
        const std::lock_guard lock(queueLock_);
        return ExtractedCheckpoints(list_.cutBefore(ExtractPolicy::firstKept(State(*this))), this);
    }
};

using CheckpointManager =
        BasicCheckpointManager<options::SelectedCursorDrop, options::SelectedCheckpointExtract>;

}  // namespace kv
