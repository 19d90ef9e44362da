// CheckpointManager: the mutation log of one vBucket. It assigns seqno and CAS to every mutation
// and keeps the recent ones for the flusher and the DCP streams, which read through cursors.
//
// This class is for the writer: the vBucket. Readers, the flusher and the remover have their own
// views: cursors(), persistence(), removal().
//
// Ownership: one per vBucket, owned by it. The CheckpointConfig outlives it; items are shared
// (ItemPtr). Threads: thread-safe; one mutex (the queue lock) per manager, taken inside every call.
// Lock order: hash-bucket lock, then queue lock; nothing is called while the queue lock is held.
// Items are freed outside the lock if a call can free many of them.
//
// Retention: a manager without cursors (an ephemeral bucket without replication) keeps nothing;
// seqnos and CAS are still assigned, and a later cursor has to backfill. A cursor never rests at
// the end of a closed checkpoint but moves into the next one at once, so reference counts and
// checkpoint ids are always exact.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "checkpoint/checkpoint_config.h"
#include "checkpoint/checkpoint_cursors.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/checkpoint_log.h"
#include "checkpoint/checkpoint_persistence.h"
#include "checkpoint/checkpoint_removal.h"
#include "checkpoint/checkpoint_results.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class CheckpointManager {
  public:
    CheckpointManager(Vbid vbid, const CheckpointConfig& config, const CheckpointStart& start = {},
                      uint64_t coarseNowNs = 0)
        : log_(vbid, config, start, coarseNowNs), maxCas_(start.maxCas.get()) {}

    // --- views for others
    [[nodiscard]] CheckpointCursors cursors() { return CheckpointCursors(log_); }
    [[nodiscard]] CheckpointPersistence persistence() { return CheckpointPersistence(log_); }
    [[nodiscard]] CheckpointRemoval removal() { return CheckpointRemoval(log_); }

    // --- mutations
    /// Assigns seqno (+1) and CAS (max(last + 1, coarseNowNs)) to the item and queues it. The
    /// caller holds the hash-bucket lock of the key. `previous`: seqno of the key's StoredValue
    /// (also of a tombstone), 0 if there is none; it is used for de-duplication. `coarseNowNs`:
    /// wall-clock nanoseconds, may lag by milliseconds. An allocation failure leaves the manager
    /// unchanged.
    QueueResult queueDirty(ItemPtr item, Seqno previous, GenerateSeqno, GenerateCas,
                           uint64_t coarseNowNs);
    /// For a caller that has not made an Item yet: if nothing would be retained, assigns seqno and
    /// CAS and is done. Otherwise returns nothing, and the caller makes the item and calls
    /// queueDirty. Both are generated.
    std::optional<QueueResult> assignOnly(uint64_t coarseNowNs);
    /// Records that the tombstone's StoredValue left the hash table after its deletion was
    /// persisted; a later mutation of the key comes with previous = 0. The caller holds the
    /// hash-bucket lock of the key.
    void noteTombstoneRemoved(std::string_view key, Seqno seqno);

    // --- history
    /// Replica: handles a snapshot marker. Opens a checkpoint for it (or extends the open one if
    /// `extend`). A marker in the middle of a snapshot is for the rest of it: the snapshot keeps
    /// its beginning, because nothing before its end is consistent.
    void createSnapshot(SnapshotRange snapshot, CheckpointType type, bool extend,
                        uint64_t coarseNowNs);
    /// Returns the range of the snapshot that contains the high seqno.
    [[nodiscard]] SnapshotRange currentSnapshot() const;
    /// The vBucket becomes active: the rest of an incomplete snapshot will not come. Returns the
    /// last seqno up to which the log is consistent (the high seqno, or the seqno before an
    /// incomplete snapshot). The CAS of mutations continue `casDistance` after the highest known
    /// one. Throws std::bad_alloc without any change.
    Seqno beginActive(uint64_t coarseNowNs, uint64_t casDistance);
    /// Drops every item and every cursor except the persistence cursor (vBucket reset); the next
    /// seqno follows `start`. The items are in the result: drop it without locks. `fresh` comes
    /// from makeEmptyCheckpoint(), which may throw std::bad_alloc; this function does not.
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
