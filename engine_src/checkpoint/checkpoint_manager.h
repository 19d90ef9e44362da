// CheckpointManager: the mutation log of one vBucket. Gives every mutation its seqno and CAS and
// keeps the recent ones for the flusher and the DCP streams, which read through cursors.
//
// What is here is for who writes: the vBucket. Its readers, its flusher and the remover have views
// of their own: cursors(), persistence(), removal().
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

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "checkpoint/checkpoint_config.h"
#include "checkpoint/checkpoint_cursors.h"
#include "checkpoint/checkpoint_log.h"
#include "checkpoint/checkpoint_persistence.h"
#include "checkpoint/checkpoint_removal.h"
#include "checkpoint/checkpoint_results.h"
#include "checkpoint/extracted_checkpoints.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class CheckpointManager {
  public:
    CheckpointManager(Vbid vbid, const CheckpointConfig& config, const CheckpointStart& start = {},
                      uint64_t coarseNowNs = 0)
        : log_(vbid, config, start, coarseNowNs), maxCas_(start.maxCas.get()) {}

    // --- others' views
    [[nodiscard]] CheckpointCursors cursors() { return CheckpointCursors(log_); }
    [[nodiscard]] CheckpointPersistence persistence() { return CheckpointPersistence(log_); }
    [[nodiscard]] CheckpointRemoval removal() { return CheckpointRemoval(log_); }

    // --- mutations
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

    // --- history
    /// Replica: a snapshot marker. Opens a checkpoint for it (or extends the open one when
    /// `extend`). A marker that comes in the middle of a snapshot is for the rest of it: the
    /// snapshot keeps its beginning, since nothing before its end is consistent.
    void createSnapshot(SnapshotRange snapshot, CheckpointType type, bool extend,
                        uint64_t coarseNowNs);
    /// Range of the snapshot that the high seqno lies in.
    [[nodiscard]] SnapshotRange currentSnapshot() const;
    /// The vBucket becomes active: what was received of a snapshot is all that there will be of it.
    /// Returns the last seqno up to which the log is consistent (the high seqno unless a snapshot
    /// was under way, else the seqno before that snapshot). The CAS of mutations go on
    /// `casDistance` after the highest known one. Throws std::bad_alloc, and then changed nothing.
    Seqno beginActive(uint64_t coarseNowNs, uint64_t casDistance);
    /// Drops every item and every cursor but the persistence cursor (vBucket reset); the next seqno
    /// follows `start`. The items are in the result: drop it without locks. `fresh` is what
    /// makeEmptyCheckpoint() made, which throws std::bad_alloc: this does not.
    ExtractedCheckpoints clear(const CheckpointStart& start, uint64_t coarseNowNs,
                               std::unique_ptr<Checkpoint> fresh);
    [[nodiscard]] static std::unique_ptr<Checkpoint> makeEmptyCheckpoint();

    // --- figures; the first three from any thread without a lock
    [[nodiscard]] Seqno highSeqno() const { return log_.highSeqno(); }
    /// Items that queueDirty accepted and persistence has not confirmed.
    [[nodiscard]] size_t unpersisted() const { return log_.persistence().unpersisted(); }
    /// Bytes of checkpoints and their items, without extracted ones that are already freed.
    [[nodiscard]] size_t memory() const { return log_.memory().bytes(); }
    [[nodiscard]] CheckpointStats stats() const;

  private:
    [[nodiscard]] Cas nextCas(uint64_t nowNs);

    CheckpointLog log_;
    uint64_t maxCas_;
};

}  // namespace kv
