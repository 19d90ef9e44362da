// CheckpointPersistence: a vBucket's log as its flusher sees it.
//
// During a flush a backup cursor stays where the flush began, so that nothing is lost if it fails.
// Ownership: a view; the CheckpointManager outlives it. Threads: one flush at a time; each call
// takes the queue lock once.
#pragma once

#include <cstddef>

#include "checkpoint/checkpoint_log.h"

namespace kv {

class CheckpointPersistence {
  public:
    explicit CheckpointPersistence(CheckpointLog& log) : log_(&log) {}

    /// Registers the persistence cursor at the start of the log. At most once, before the first
    /// mutation.
    void registerCursor() const;
    /// Reads with the persistence cursor and leaves the backup cursor where it was. Takes whole
    /// checkpoints: the first, and then others until `limit` items or `limitBytes`.
    CursorItems takeItemsToPersist(size_t limit, size_t limitBytes = SIZE_MAX) const;
    /// Records that the items of the last take are stored.
    void persisted() const;
    /// Records that they are not: the next take begins with them again.
    void persistFailed() const;

  private:
    CheckpointLog* log_;
};

}  // namespace kv
