// CheckpointRemoval: a vBucket's log as the code that frees its memory sees it.
//
// Ownership: a view that may be copied freely; the CheckpointManager outlives it. Threads: any;
// each call takes the queue lock once, vbid() and memory() none. Items are freed outside the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint_cursors.h"
#include "checkpoint/checkpoint_list.h"
#include "checkpoint/checkpoint_log.h"
#include "options/selected/checkpoint_extract.h"
#include "options/selected/cursor_drop.h"

namespace kv {

/// The part that no build switch changes.
class CheckpointRemovalBase {
  public:
    explicit CheckpointRemovalBase(CheckpointLog& log) : log_(&log) {}

    [[nodiscard]] Vbid vbid() const { return log_->vbid(); }
    /// Bytes of checkpoints and their items, without extracted ones that are already freed.
    [[nodiscard]] size_t memory() const { return log_->memory().bytes(); }
    /// Closes the open checkpoint if it is old enough, for vBuckets that get no more writes.
    void closeIfDue(uint64_t coarseNowNs) const;
    /// Frees the items that every cursor has passed in the oldest checkpoint that has a cursor.
    /// Returns the bytes freed.
    size_t expel() const;
    /// Removes a slow reader's cursor; returns false if it is no longer registered.
    bool removeCursor(const CursorPtr& cursor) const {
        return CheckpointCursors(*log_).removeCursor(cursor);
    }

    /// The state that a policy of options/ sees, with the queue lock held.
    class State {
      public:
        explicit State(const CheckpointLog& log) : log_(log) {}
        [[nodiscard]] Checkpoint* oldest() const { return log_.oldest(); }
        [[nodiscard]] Checkpoint* open() const { return log_.newest(); }
        /// The cursor at the oldest item that persistence still needs; nullptr without persistence.
        [[nodiscard]] const CheckpointCursor* special() const {
            return log_.persistence().needed();
        }
        /// All registered cursors, including persistence and an active backup.
        [[nodiscard]] const std::vector<CursorPtr>& cursors() const { return log_.cursors().all(); }

      private:
        const CheckpointLog& log_;
    };

  protected:
    CheckpointLog* log_;
};

template <class DropPolicy, class ExtractPolicy>
class BasicCheckpointRemoval final : public CheckpointRemovalBase {
  public:
    using Drop = DropPolicy;
    using Extract = ExtractPolicy;

    explicit BasicCheckpointRemoval(CheckpointLog& log) : CheckpointRemovalBase(log) {}
    /// The same log with other policies.
    explicit BasicCheckpointRemoval(const CheckpointRemovalBase& other)
        : CheckpointRemovalBase(other) {}

    /// The cursors that hold back checkpoints which persistence no longer needs.
    [[nodiscard]] std::vector<CursorPtr> getListOfCursorsToDrop() const {
        const auto lock = log_->lock();
        return DropPolicy::select(State(*log_));
    }

    /// Takes the closed checkpoints before the lowest cursor out of the list, and what the last
    /// reader left.
    [[nodiscard]] ExtractedCheckpoints extractClosedUnrefCheckpoints() const {
        const auto lock = log_->lock();
        CheckpointList list = log_->takeLeft();
        list.append(log_->cutBefore(ExtractPolicy::firstKept(State(*log_))));
        return ExtractedCheckpoints(std::move(list), log_->memory());
    }
};

using CheckpointRemoval =
        BasicCheckpointRemoval<options::SelectedCursorDrop, options::SelectedCheckpointExtract>;

}  // namespace kv
