// ActiveStream: one vBucket's stream of a DCP producer, from backfill to memory and back.
//
// Life: Backfilling -> InMemory -> Dead. A stream whose cursor was dropped because it was slow goes
// from InMemory back to Backfilling and goes on from the last seqno that it read. Everything up to
// end() is sent exactly once, in seqno order; keys are unique inside a snapshot. Ownership: shared
// by the producer's slot, its tasks and the thread that steps. The CheckpointManager and the
// backfill source outlive it. Threads: next() is called by one thread at a time (the producer's
// step); notifySeqno() by any; takeSnapshot() and runBackfill() by the producer's tasks. One mutex
// a stream; lock order: stream mutex, then the checkpoint's queue lock.
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
#include "types/snapshot_range.h"

namespace kv::dcp {

struct StreamRequest {
    Vbid vbid{};
    uint32_t opaque{0};
    Seqno start{};          ///< the client has everything up to here
    Seqno end{UINT64_MAX};  ///< last seqno wanted
    bool diskOnly{false};   ///< end after the backfill
    MessageFormat format{};
    /// The snapshot that the client has in part: it is consistent at its start, and again at its
    /// end. None: at `start`.
    std::optional<SnapshotRange> snapshot{};
};

enum class StreamState : uint8_t { Backfilling, InMemory, Dead };

/// What next() found when it has no message.
enum class StreamNeeds : uint8_t { Nothing, Snapshot, Backfill };

/// Whether a stream that waits for its snapshot asks to be listed for each new seqno all the same
/// (Yes: the historic design whose snapshot queue holds duplicates), or stays quiet until the
/// snapshot has been taken, which brings those seqnos too.
enum class ListWhilePending : bool { No, Yes };

class ActiveStream {
  public:
    /// Registers the stream's cursor, named `name`.
    ActiveStream(const StreamRequest& request, std::string name, CheckpointCursors checkpoints,
                 BackfillSource& source);
    ~ActiveStream();
    ActiveStream(const ActiveStream&) = delete;
    ActiveStream& operator=(const ActiveStream&) = delete;

    /// The next message; when there is none, `needs` says which task must run first (Nothing: wait
    /// for notifySeqno). After that task has run the stream must be listed.
    std::optional<Message> next(StreamNeeds& needs, ListWhilePending pending);

    /// A new seqno exists. True when the stream was idle, so that it must be listed as ready. Takes
    /// no lock.
    bool notifySeqno() { return !itemsReady_.exchange(true, std::memory_order_acq_rel); }

    /// The same under the stream's mutex, which next() holds: the historic design before the ready
    /// queue.
    bool notifySeqnoUnderMutex();

    /// Reads on from the cursor and makes snapshot marker and messages of it. True when there is
    /// something to send.
    bool takeSnapshot();
    /// Reads what memory no longer holds. Where there is no memory for it, nothing is lost: next()
    /// asks again.
    void runBackfill();
    /// Bytes that either brings, and then the rest of one document; next() asks for more when they
    /// are sent.
    static constexpr size_t kReadBytes = size_t{4} << 20;
    /// The same where the streams of the bucket hold all that they may.
    static constexpr size_t kReadLeast = size_t{16} << 10;

    /// Memory recovery wants this cursor gone: true when it was this stream's. The stream sends
    /// what it has already read, then goes on by backfill.
    bool cursorDropped(const CursorPtr& cursor);
    /// Ends the stream; the end message is sent unless `silently`.
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
    };
    [[nodiscard]] Stats stats() const;

  private:
    using Lock = std::unique_lock<std::mutex>;
    [[nodiscard]] Seqno lastRead() const;
    [[nodiscard]] bool isBackfilling() const {
        return state_.load(std::memory_order_acquire) == StreamState::Backfilling;
    }
    void registerCursor(const Lock& lock);
    /// Throws std::bad_alloc, and then changed nothing.
    void push(Message message, const Lock& lock);
    /// A stop is not the end of it: next() asks for more.
    [[nodiscard]] bool hasReadEnough(const Lock& lock) const;
    /// Announces a snapshot up to `end`, or to where the client is whole again.
    void mark(Seqno end, uint32_t flags, const Lock& lock);
    void readCheckpoints(const Lock& lock);
    /// Goes on by backfill, from lastRead_.
    void dropCursor(const Lock& lock);
    void finishIfComplete(const Lock& lock);
    bool prepareBackfill();
    enum class Scanned : uint8_t { Paused, Complete, Failed, MissedDeletions };
    Scanned scan();
    void finishBackfill(Scanned scanned, Seqno high);
    void endLocked(EndStatus status, bool silently, const Lock& lock) noexcept;
    /// Messages that wait, the end among them.
    [[nodiscard]] size_t waiting(const Lock& /*lock*/) const {
        return ready_.size() + (toEnd_ ? 1 : 0);
    }

    const StreamRequest request_;
    const std::string name_;
    CheckpointCursors checkpoints_;
    BackfillSource& source_;

    /// Someone will look at the stream; cleared before deciding that it is idle. On a cache line of
    /// its own: every mutation writes it, and must not wait for the line that next() works on.
    alignas(64) std::atomic<bool> itemsReady_{true};
    alignas(64) std::atomic<StreamState> state_{StreamState::Backfilling};

    // The backfill task's.
    std::unique_ptr<BackfillScan> scan_;
    bool marked_{false};  ///< the scan's snapshot marker is out

    mutable std::mutex mutex_;
    std::deque<Message> ready_;
    UnsentBytes::Share unsent_;       ///< what is in ready_
    std::optional<EndStatus> toEnd_;  ///< the end message, behind ready_: ending does not fail
    CursorPtr cursor_;                ///< empty after it was dropped, until the next backfill
    Seqno cursorNext_;                ///< first seqno that the cursor can deliver
    Seqno lastRead_;                  ///< highest seqno put into ready_
    Seqno markedEnd_;                 ///< end of the last snapshot put into ready_
    Seqno consistent_;  ///< where the client is consistent while it does not have all up to whole_
    Seqno whole_;       ///< and where it is again: end of the last snapshot marker
    Seqno lastSent_;
    uint64_t backfilled_{0};
    uint64_t fromMemory_{0};
    uint64_t cursorDrops_{0};
};

}  // namespace kv::dcp
