// CheckpointCursors: a vBucket's log as its readers, the DCP streams, see it.
//
// Ownership: a view that may be copied freely; the CheckpointManager outlives it. Threads: any;
// each call takes the queue lock once, highSeqno() none. Items are freed outside the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint_log.h"

namespace kv {

class CheckpointCursors {
  public:
    explicit CheckpointCursors(CheckpointLog& log) : log_(&log) {}

    [[nodiscard]] Seqno highSeqno() const { return log_->highSeqno(); }
    /// Registers a cursor for a reader that has everything up to `lastSeen`, replacing a cursor of
    /// that name.
    CursorRegistration registerCursor(const std::string& name, Seqno lastSeen) const;
    /// Removes it; returns false if it is not registered (already dropped). Its checkpoints may now
    /// be removable.
    bool removeCursor(const CursorPtr& cursor) const;
    [[nodiscard]] CursorPtr findCursor(std::string_view name) const;
    /// Reads from the cursor: whole checkpoints until at least `limit` items. Empty if the cursor
    /// was removed. With a byte limit it stops in the middle of a closed checkpoint, whose snapshot
    /// does not change any more. A longer open one is closed for that purpose, as long as there may
    /// be more checkpoints.
    CursorItems getItemsForCursor(const CursorPtr& cursor, size_t limit,
                                  size_t limitBytes = SIZE_MAX) const;
    /// Number of live items that the cursor has not read yet. O(checkpoints after the cursor +
    /// entries of one).
    [[nodiscard]] size_t itemsLeft(const CursorPtr& cursor) const;

  private:
    CursorItems readPart(CheckpointCursor& cursor, size_t limitBytes) const;

    CheckpointLog* log_;
};

}  // namespace kv
