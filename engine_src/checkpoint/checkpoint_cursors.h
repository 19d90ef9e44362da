// CheckpointCursors: a vBucket's log as its readers see it: DCP streams.
//
// A view: copy it freely; the CheckpointManager outlives it. Thread rules: any thread; each call
// takes the queue lock once, highSeqno() none. Items are freed outside the lock.
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
    /// Registers a cursor for a reader that has everything up to `lastSeen`. A cursor of that name
    /// is replaced.
    CursorRegistration registerCursor(const std::string& name, Seqno lastSeen) const;
    /// Removes it; false when it is not registered (dropped meanwhile). Its checkpoints may now be
    /// removable.
    bool removeCursor(const CursorPtr& cursor) const;
    [[nodiscard]] CursorPtr findCursor(std::string_view name) const;
    /// Reads on from the cursor: whole checkpoints until at least `limit` items. Empty when the
    /// cursor was removed. With a byte limit it stops in the middle of a closed checkpoint, whose
    /// snapshot does not change any more; an open one that is longer is closed for that, as long as
    /// there may be more checkpoints.
    CursorItems getItemsForCursor(const CursorPtr& cursor, size_t limit,
                                  size_t limitBytes = SIZE_MAX) const;
    /// Live items the cursor has not read yet. O(checkpoints after the cursor + entries of one).
    [[nodiscard]] size_t itemsLeft(const CursorPtr& cursor) const;

  private:
    CursorItems readPart(CheckpointCursor& cursor, size_t limitBytes) const;

    CheckpointLog* log_;
};

}  // namespace kv
