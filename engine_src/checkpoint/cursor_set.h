// CursorSet: the cursors that are registered with one vBucket's log, including persistence and the
// backup of a running flush, in no order. PersistencePlace: those two.
//
// Threads: everything under the queue lock, except unpersisted(), which any thread may read.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

#include "checkpoint/cursor.h"

namespace kv {

class CursorSet {
  public:
    [[nodiscard]] bool empty() const { return cursors_.empty(); }
    [[nodiscard]] size_t size() const { return cursors_.size(); }
    [[nodiscard]] const std::vector<CursorPtr>& all() const { return cursors_; }

    /// Makes room, so that the next add() allocates nothing.
    void reserveOne() { cursors_.reserve(cursors_.size() + 1); }
    /// Puts the cursor at a place in the log.
    void add(const CursorPtr& cursor, Checkpoint* checkpoint, size_t position) {
        cursors_.push_back(cursor);
        cursor->moveTo(checkpoint, position);
    }
    [[nodiscard]] CursorPtr find(std::string_view name) const;
    /// Removes the cursor from the log; returns false if it is not registered.
    bool remove(const CheckpointCursor* cursor);
    void clear();

    /// Returns the one that has read least; nullptr if there is none.
    [[nodiscard]] const CheckpointCursor* lowest() const;
    /// Returns pointers to the positions of the cursors in `checkpoint`, to change them all.
    [[nodiscard]] std::vector<size_t*> positionsIn(const Checkpoint& checkpoint) const;

  private:
    std::vector<CursorPtr> cursors_;
};

/// The position of persistence in a vBucket's log: its cursor and, during a flush, the backup
/// cursor that stays where the flush began.
struct PersistencePlace {
    CursorPtr cursor;  ///< null: nothing is persisted
    CursorPtr backup;  ///< made once, registered only during a flush
    size_t taken{0};   ///< items of the current flush; 0: there is none

    [[nodiscard]] bool isFlushing() const { return taken != 0; }
    /// The cursor at the oldest item that persistence still needs; nullptr without persistence.
    [[nodiscard]] const CheckpointCursor* needed() const {
        return isFlushing() ? backup.get() : cursor.get();
    }
    /// True if persistence has received the entry at that position.
    [[nodiscard]] bool hasTaken(const Checkpoint& checkpoint, size_t position) const {
        return cursor != nullptr && cursor->checkpoint() == &checkpoint &&
               cursor->position() > position;
    }

    /// Number of items that were queued and are not known to be stored.
    [[nodiscard]] size_t unpersisted() const {
        return unpersisted_.load(std::memory_order_acquire);
    }
    void setUnpersisted(size_t items) { unpersisted_.store(items, std::memory_order_release); }

  private:
    std::atomic<size_t> unpersisted_{0};
};

}  // namespace kv
