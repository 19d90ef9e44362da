// ActiveStream: one vBucket's stream of a DCP producer, from backfill to memory and back.
//
// States: Backfilling -> InMemory -> Dead. A stream whose cursor was dropped because it was slow
// returns from InMemory to Backfilling and continues from the last seqno that it read. A backfill
// whose scan was given back continues with another one, up to the end of the first one. What moved
// beyond that end in the meantime follows, and a marker tells the client that it is consistent only
// then. Everything is sent exactly once, in seqno order; keys are unique after a marker.
//
// Snapshots are sent whole, also beyond the requested end: a document up to that end may have moved
// behind it. A replica that has only a part of the last snapshot ends the stream before the end in
// the marker. A disk-only stream ends where its view of the store does.
//
// Ownership: shared by the producer's slot, its tasks and the thread that steps. The
// CheckpointManager and the backfill source outlive it. Threads: next() is called by one thread at
// a time (the producer's step); notifySeqno() by any; takeSnapshot() and runBackfill() by the
// producer's tasks. One mutex per stream; lock order: stream mutex, then the checkpoint's queue
// lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_cursors.h"
#include "dcp/backfill.h"
#include "dcp/message.h"
#include "types/ids.h"

namespace kv::dcp {

struct StreamRequest {
    Vbid vbid{};
    uint32_t opaque{0};
    Seqno start{};  ///< the client has everything up to here
    /// The stream ends with the snapshot that contains it.
    Seqno end{UINT64_MAX};
    bool diskOnly{false};  ///< end after the backfill
    MessageFormat format{};
    /// The snapshot that the client has in part: it is consistent at its start and again at its
    /// end. Empty: it is consistent at `start`.
    std::optional<SnapshotRange> snapshot{};
};

enum class StreamState : uint8_t { Backfilling, InMemory, Dead };

/// The work that next() needs when it has no message.
enum class StreamNeeds : uint8_t { Nothing, Snapshot, Backfill };

/// Whether a stream that waits for its snapshot is still listed for each new seqno. Yes is the
/// historic design, whose snapshot queue holds duplicates. With No it stays quiet until the
/// snapshot has been taken, which includes those seqnos.
enum class ListWhilePending : bool { No, Yes };

class ActiveStream {
  public:
    /// Registers the stream's cursor, named `name`. Its scans take their slots from `slots`, or
    /// from those of the source.
    ActiveStream(const StreamRequest& request, std::string name, CheckpointCursors checkpoints,
                 BackfillSource& source, ScanSlots* slots = nullptr);
    ~ActiveStream();
    ActiveStream(const ActiveStream&) = delete;
    ActiveStream& operator=(const ActiveStream&) = delete;

    /// Returns the next message. If there is none, `needs` names the task that must run first
    /// (Nothing: wait for notifySeqno). After that task has run, the stream must be listed.
    std::optional<Message> next(StreamNeeds& needs, ListWhilePending pending);

    /// Records a new seqno. Returns true if the stream was idle, so that it must be listed as
    /// ready. Takes no lock.
    bool notifySeqno() { return !itemsReady_.exchange(true, std::memory_order_acq_rel); }

    /// As notifySeqno(), under the stream's mutex, which next() holds: the historic design before
    /// the ready queue.
    bool notifySeqnoUnderMutex();

    /// Reads from the cursor and turns the items into a snapshot marker and messages. Returns true
    /// if there is something to send.
    bool takeSnapshot();
    /// Reads items that memory no longer holds. If memory is short, nothing is lost: next() asks
    /// again. Returns false if there was no slot for its scan: it must be run again later.
    bool runBackfill();

    /// The state of the stream's open scan, for observers.
    struct ScanSight {
        uint64_t number{0};   ///< of this scan, unique in the node; 0 if there is none
        uint64_t reads{0};    ///< number of reads
        bool useless{false};  ///< the stream has ended
    };
    [[nodiscard]] ScanSight scanSight() const {
        return {slot_.number(), reads_.load(std::memory_order_relaxed),
                state() == StreamState::Dead};
    }
    /// Closes the scan unless it is being read; the backfill continues with another one. Returns
    /// true if there was one. Any thread, under a BucketMemoryGuard of the bucket.
    bool giveScanBack() noexcept;
    /// Bytes that one read of memory or disk may bring, plus the rest of one document; next() asks
    /// for more when they are sent.
    static constexpr size_t kReadBytes = size_t{4} << 20;
    /// The same when the streams of the bucket hold all that they may.
    static constexpr size_t kReadLeast = size_t{16} << 10;

    /// Drops the cursor for memory recovery. Returns true if it was this stream's. The stream sends
    /// the items that it has already read, then continues by backfill.
    bool cursorDropped(const CursorPtr& cursor);
    /// Ends the stream. The end message is sent unless `silently`.
    void end(EndStatus status, bool silently) noexcept;

    [[nodiscard]] Vbid vbid() const { return request_.vbid; }
    [[nodiscard]] uint32_t opaque() const { return request_.opaque; }
    [[nodiscard]] StreamState state() const { return state_.load(std::memory_order_acquire); }
    [[nodiscard]] bool drained() const;

    struct Stats {
        StreamState state{StreamState::Dead};
        Seqno lastRead{};
        Seqno lastSent{};
        Seqno end{};
        size_t readyItems{0};
        size_t readyBytes{0};
        uint64_t backfilled{0};
        uint64_t fromMemory{0};
        uint64_t cursorDrops{0};
        uint64_t scansGivenBack{0};
    };
    [[nodiscard]] Stats stats() const;

  private:
    using Lock = std::unique_lock<std::mutex>;
    [[nodiscard]] Seqno lastRead() const;
    [[nodiscard]] bool isBackfilling() const {
        return state_.load(std::memory_order_acquire) == StreamState::Backfilling;
    }
    void registerCursor(const Lock& lock);
    /// Throws std::bad_alloc without any change.
    void push(Message message, const Lock& lock);
    /// True when the current read should stop; next() asks for more later.
    [[nodiscard]] bool hasReadEnough(const Lock& lock) const;
    /// Announces a snapshot up to `end`, or up to the point where the client is consistent again.
    void mark(Seqno end, uint32_t flags, const Lock& lock);
    void readCheckpoints(const Lock& lock);
    /// Continues by backfill, from lastRead_.
    void dropCursor(const Lock& lock);
    [[nodiscard]] bool isComplete(const Lock& lock) const;
    void finishIfComplete(const Lock& lock);
    bool prepareBackfill();
    enum class Scanned : uint8_t { Paused, GivenUp, Complete, Failed, MissedDeletions };
    /// Opens the scan, for the first time or after an earlier one was given back. Complete means
    /// that it may be read.
    Scanned openScan();
    /// Announces a later end if documents moved beyond the view before the open scan was opened.
    void extendView();
    Scanned scan();
    void closeScan() noexcept;
    void finishBackfill(Scanned scanned);
    void endLocked(EndStatus status, bool silently, const Lock& lock) noexcept;
    /// Number of waiting messages, including the end message.
    [[nodiscard]] size_t waiting(const Lock& /*lock*/) const {
        return ready_.size() + (toEnd_ ? 1 : 0);
    }

    const StreamRequest request_;
    const std::string name_;
    CheckpointCursors checkpoints_;
    BackfillSource& source_;

    /// Some thread will look at the stream; cleared before the decision that it is idle. On its own
    /// cache line: every mutation writes it, and must not wait for the line that next() works on.
    alignas(64) std::atomic<bool> itemsReady_{true};
    alignas(64) std::atomic<StreamState> state_{StreamState::Backfilling};

    /// Held while the scan is read, which may wait for the disk; other threads only try it. Comes
    /// before mutex_.
    std::mutex scanMutex_;
    std::unique_ptr<BackfillScan> scan_;  ///< guarded by scanMutex_
    ScanSlots& slots_;
    ScanSlots::Slot slot_;  ///< of scan_
    std::atomic<uint64_t> reads_{0};
    std::atomic<uint64_t> scansGivenBack_{0};
    /// The view of the backfill's first scan; a scan that replaces it ends there as well.
    struct View {
        Seqno high{};
        Seqno snapshotEnd{};
        /// Documents that moved beyond `high` before they were read are at or below it.
        Seqno movedTo{};
        /// Deletions purged up to here are known to be harmless; beyond, the client may miss one.
        Seqno purged{};
    };
    std::optional<View> view_;  ///< guarded by scanMutex_; empty unless a backfill is in progress
    bool marked_{false};        ///< the view's snapshot marker has been queued

    mutable std::mutex mutex_;
    std::deque<Message> ready_;
    UnsentBytes::Share unsent_;  ///< the bytes in ready_
    /// The end message, after ready_: so that ending a stream cannot fail.
    std::optional<EndStatus> toEnd_;
    CursorPtr cursor_;  ///< empty after it was dropped, until the next backfill
    Seqno cursorNext_;  ///< first seqno that the cursor can deliver
    Seqno lastRead_;    ///< highest seqno put into ready_
    Seqno markedEnd_;   ///< end of the last snapshot put into ready_
    /// The client's last consistent point while it does not have everything up to whole_.
    Seqno consistent_;
    Seqno whole_;  ///< the next consistent point: end of the last snapshot marker
    Seqno lastSent_;
    uint64_t backfilled_{0};
    uint64_t fromMemory_{0};
    uint64_t cursorDrops_{0};
};

}  // namespace kv::dcp
