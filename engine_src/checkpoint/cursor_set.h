// CursorSet: the cursors that are registered with one vBucket's log, including persistence and the
// backup of a running flush, in no order.
//
// Threads: everything under the queue lock.
#pragma once

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

}  // namespace kv
