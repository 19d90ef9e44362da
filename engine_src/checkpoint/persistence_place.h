// PersistencePlace: the position of persistence in a vBucket's log: its cursor and, during a flush,
// the backup cursor that stays where the flush began.
//
// Threads: everything under the queue lock, except unpersisted(), which any thread may read.
#pragma once

#include <atomic>
#include <cstddef>

#include "checkpoint/cursor.h"

namespace kv {

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
