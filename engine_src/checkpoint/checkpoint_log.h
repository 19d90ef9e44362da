// CheckpointLog: the checkpoints of one vBucket, the cursors in them, and the steps that writers,
// readers, persistence and removal have in common. The inside of a CheckpointManager, which gives
// each of them a type of their own.
//
// Thread rules: everything between lock() and the end of the lock, but for vbid(), highSeqno(),
// and what memory() and persistence() say of themselves. Lock order: hash-bucket lock, then this
// one, the queue lock; nothing is called while it is held.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_config.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/checkpoint_memory.h"
#include "checkpoint/checkpoint_results.h"
#include "checkpoint/cursor_set.h"
#include "checkpoint/persistence_place.h"
#include "types/contention.h"
#include "types/ids.h"

namespace kv {

class CheckpointLog {
  public:
    CheckpointLog(Vbid vbid, const CheckpointConfig& config, const CheckpointStart& start,
                  uint64_t coarseNowNs);
    CheckpointLog(const CheckpointLog&) = delete;
    CheckpointLog& operator=(const CheckpointLog&) = delete;
    ~CheckpointLog() = default;

    using Lock = std::lock_guard<std::mutex>;
    [[nodiscard]] Lock lock() const { return Lock(queueLock_); }
    /// The same; that it had to wait is counted.
    [[nodiscard]] std::unique_lock<std::mutex> lockForMutation() const {
        return lockCounted<std::unique_lock<std::mutex>>(queueLock_, contention.logLocks);
    }

    [[nodiscard]] Vbid vbid() const { return vbid_; }
    [[nodiscard]] const CheckpointConfig& config() const { return config_; }
    CursorSet& cursors() { return cursors_; }
    [[nodiscard]] const CursorSet& cursors() const { return cursors_; }
    PersistencePlace& persistence() { return persistence_; }
    [[nodiscard]] const PersistencePlace& persistence() const { return persistence_; }
    CheckpointMemory& memory() { return memory_; }
    [[nodiscard]] const CheckpointMemory& memory() const { return memory_; }

    [[nodiscard]] Seqno highSeqno() const {
        return Seqno{highSeqno_.load(std::memory_order_acquire)};
    }
    void publishHigh(Seqno seqno) { highSeqno_.store(seqno.get(), std::memory_order_release); }

    // --- checkpoints
    [[nodiscard]] Checkpoint& open() { return *list_.newest(); }
    [[nodiscard]] const Checkpoint& open() const { return *list_.newest(); }
    [[nodiscard]] Checkpoint* oldest() const { return list_.oldest(); }
    [[nodiscard]] Checkpoint* newest() const { return list_.newest(); }
    [[nodiscard]] size_t checkpoints() const { return list_.size(); }
    [[nodiscard]] CheckpointList cutBefore(Checkpoint* kept) { return list_.cutBefore(kept); }
    /// The open checkpoint holds enough bytes; or it is full or old enough, and there may be one
    /// more.
    [[nodiscard]] bool shouldClose(uint64_t nowNs) const;
    /// Closes the open checkpoint and opens another; an empty one becomes the other.
    void openCheckpoint(SnapshotRange snapshot, CheckpointType type, uint64_t nowNs);
    /// The same for mutations that are made here.
    void openNext(uint64_t nowNs) {
        openCheckpoint({next(highSeqno()), highSeqno()}, CheckpointType::Memory, nowNs);
    }
    /// Squeezes the holes out of the open checkpoint, if there is memory for it.
    void compactOpen();
    /// Drops every item, and every cursor but persistence's; the next seqno follows `start`.
    /// `fresh` is the open checkpoint from then on: nothing is allocated. What the caller has to
    /// free.
    [[nodiscard]] CheckpointList startOver(const CheckpointStart& start, uint64_t nowNs,
                                           std::unique_ptr<Checkpoint> fresh);

    // --- snapshots
    /// The last mutation or snapshot came from an active copy elsewhere.
    [[nodiscard]] bool isReplica() const { return replica_; }
    void setReplica(bool replica) { replica_ = replica; }
    /// The snapshot that the high seqno lies in.
    [[nodiscard]] SnapshotRange snapshotOfHigh() const {
        const SnapshotRange opened = open().snapshot();
        return highSeqno() >= opened.start ? opened : lastSnapshot_;
    }
    /// Part of it has not been received.
    [[nodiscard]] bool isPartial(const SnapshotRange& snapshot) const {
        return highSeqno() < snapshot.end;
    }
    /// What snapshots promise above the high seqno will not come. `received`: the checkpoint that
    /// was open when that became clear.
    void cutSnapshots(Checkpoint& received) {
        received.cutSnapshot(highSeqno());
        lastSnapshot_.end = std::min(lastSnapshot_.end, highSeqno());
    }

    // --- reading
    /// A cursor never rests at the end of a closed checkpoint: it steps into the next one at once.
    void settle(CheckpointCursor& cursor) const;
    /// Live items that the cursor has not read. O(checkpoints after it + entries of one).
    [[nodiscard]] static size_t itemsFrom(const CheckpointCursor& cursor);
    /// Reads on from the cursor: whole checkpoints, at least one, until `limit` items or
    /// `limitBytes`.
    CursorItems read(CheckpointCursor& cursor, size_t limit, size_t limitBytes);

  private:
    mutable std::mutex queueLock_;
    CheckpointList list_;  ///< never empty: the last one is open
    const CheckpointConfig& config_;
    CursorSet cursors_;
    PersistencePlace persistence_;
    const Vbid vbid_;
    bool replica_{false};
    SnapshotRange lastSnapshot_{};  ///< where the high seqno lies unless in the open checkpoint
    std::atomic<uint64_t> highSeqno_{0};
    CheckpointMemory memory_;
};

inline bool CheckpointLog::shouldClose(uint64_t nowNs) const {
    const Checkpoint& opened = open();
    if (opened.liveItems() == 0) {
        return false;
    }
    if (opened.memory() >= config_.maxBytes) {
        return true;
    }
    const bool old = nowNs > opened.createdAtNs() &&
                     nowNs - opened.createdAtNs() >= static_cast<uint64_t>(config_.period.count());
    if (!old && opened.liveItems() < config_.maxItems) {
        return false;
    }
    return checkpoints() < config_.maxCheckpoints ||
           (checkpoints() == config_.maxCheckpoints && oldest()->cursorCount() == 0);
}

}  // namespace kv
