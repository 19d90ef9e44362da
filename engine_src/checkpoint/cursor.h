// CheckpointCursor: a named reader of a vBucket's checkpoints. It holds a place (checkpoint,
// position), but no item.
//
// Ownership: shared by the CheckpointManager and the reader (a DCP stream, the flusher). Threads:
// every field except the name is read and written only under the manager's queue lock.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "checkpoint/checkpoint.h"

namespace kv {

class CheckpointCursor {
  public:
    explicit CheckpointCursor(std::string name) : name_(std::move(name)) {}
    CheckpointCursor(const CheckpointCursor&) = delete;
    CheckpointCursor& operator=(const CheckpointCursor&) = delete;
    ~CheckpointCursor() = default;

    [[nodiscard]] const std::string& name() const { return name_; }
    /// The checkpoint the cursor is in; null once the cursor was removed.
    [[nodiscard]] Checkpoint* checkpoint() const { return checkpoint_; }
    /// Id of that checkpoint, kept here so that comparing cursors touches no checkpoint.
    [[nodiscard]] CheckpointId checkpointId() const { return checkpointId_; }
    /// Position of the next entry to read.
    [[nodiscard]] size_t position() const { return position_; }

    /// Moves the cursor and updates both checkpoints' cursor counts. Null removes it from the list.
    void moveTo(Checkpoint* checkpoint, size_t position) {
        if (checkpoint_ != checkpoint) {
            if (checkpoint_ != nullptr) {
                checkpoint_->cursorLeft();
            }
            checkpoint_ = checkpoint;
            if (checkpoint != nullptr) {
                checkpoint->cursorArrived();
                checkpointId_ = checkpoint->id();
            }
        }
        position_ = position;
    }
    [[nodiscard]] size_t* positionSlot() { return &position_; }

  private:
    const std::string name_;
    Checkpoint* checkpoint_{nullptr};
    CheckpointId checkpointId_{};
    size_t position_{0};
};

using CursorPtr = std::shared_ptr<CheckpointCursor>;

}  // namespace kv
