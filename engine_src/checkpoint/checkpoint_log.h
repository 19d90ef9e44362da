// CheckpointLog: the checkpoints of one vBucket, the cursors in them, and the steps that writers,
// readers, persistence and removal have in common. It is the inside of a CheckpointManager, which
// offers each of them a type.
//
// Threads: everything between lock() and the end of the lock, except vbid(), highSeqno(), and the
// functions of memory() and persistence() that are documented otherwise. Lock order: hash-bucket
// lock, then this one, the queue lock; nothing is called while it is held.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_config.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/checkpoint_results.h"
#include "checkpoint/cursor_set.h"
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
    /// As lock(); counts if it had to wait.
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
    /// Keeps everything, which nobody reads any more, until the remover takes it: freeing it may
    /// take long. Returns false if memory is too short for that; then some of it is kept, and the
    /// open checkpoint has its entries.
    [[nodiscard]] bool leaveAll() noexcept;
    [[nodiscard]] CheckpointList takeLeft() noexcept { return std::exchange(left_, {}); }
    /// True if the open checkpoint holds enough bytes; or if it is full or old enough, and there
    /// may be one more.
    [[nodiscard]] bool shouldClose(uint64_t nowNs) const;
    /// Closes the open checkpoint and opens another; an empty one is reused.
    void openCheckpoint(SnapshotRange snapshot, CheckpointType type, uint64_t nowNs);
    /// The same for mutations that are made here.
    void openNext(uint64_t nowNs) {
        openCheckpoint({next(highSeqno()), highSeqno()}, CheckpointType::Memory, nowNs);
    }
    /// Squeezes the holes out of the open checkpoint, if there is memory for it.
    void compactOpen();
    /// Drops every item, and every cursor except persistence's; the next seqno follows `start`.
    /// `fresh` is the open checkpoint from then on, so nothing is allocated. Returns the list for
    /// the caller to free.
    [[nodiscard]] CheckpointList startOver(const CheckpointStart& start, uint64_t nowNs,
                                           std::unique_ptr<Checkpoint> fresh);

    // --- snapshots
    /// True if the last mutation or snapshot came from an active copy elsewhere.
    [[nodiscard]] bool isReplica() const { return replica_; }
    void setReplica(bool replica) { replica_ = replica; }
    /// The snapshot that contains the high seqno.
    [[nodiscard]] SnapshotRange snapshotOfHigh() const {
        const SnapshotRange opened = open().snapshot();
        return highSeqno() >= opened.start ? opened : lastSnapshot_;
    }
    /// True if a part of it has not been received.
    [[nodiscard]] bool isPartial(const SnapshotRange& snapshot) const {
        return highSeqno() < snapshot.end;
    }
    /// Records that the parts of snapshots above the high seqno will not come. `received`: the
    /// checkpoint that was open at that time.
    void cutSnapshots(Checkpoint& received) {
        received.cutSnapshot(highSeqno());
        lastSnapshot_.end = std::min(lastSnapshot_.end, highSeqno());
    }

    // --- reading
    /// Moves a cursor at the end of a closed checkpoint into the next one at once.
    void settle(CheckpointCursor& cursor) const;
    /// Number of live items that the cursor has not read. O(checkpoints after it + entries of one).
    [[nodiscard]] static size_t itemsFrom(const CheckpointCursor& cursor);
    /// Reads from the cursor: whole checkpoints, at least one, until `limit` items or `limitBytes`.
    CursorItems read(CheckpointCursor& cursor, size_t limit, size_t limitBytes);

  private:
    mutable std::mutex queueLock_;
    CheckpointList list_;  ///< never empty: the last one is open
    CheckpointList left_;  ///< for the remover; counted in memory_
    const CheckpointConfig& config_;
    CursorSet cursors_;
    PersistencePlace persistence_;
    const Vbid vbid_;
    bool replica_{false};
    SnapshotRange lastSnapshot_{};  ///< contains the high seqno, unless the open checkpoint does
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
    // In both directions: a clock that is set back would keep the checkpoint open until it is at
    // this time again.
    const uint64_t created = opened.createdAtNs();
    const uint64_t age = nowNs > created ? nowNs - created : created - nowNs;
    const bool old = age >= static_cast<uint64_t>(config_.period.count());
    if (!old && opened.liveItems() < config_.maxItems) {
        return false;
    }
    return checkpoints() < config_.maxCheckpoints ||
           (checkpoints() == config_.maxCheckpoints && oldest()->cursorCount() == 0);
}

}  // namespace kv
