#include "checkpoint/cursor_set.h"

#include <algorithm>
#include <utility>

namespace kv {

namespace {

/// Orders two cursors by their places in the log.
bool isBefore(const CursorPtr& a, const CursorPtr& b) {
    if (a->checkpointId() != b->checkpointId()) {
        return a->checkpointId() < b->checkpointId();
    }
    return a->position() < b->position();
}

}  // namespace

CursorPtr CursorSet::find(std::string_view name) const {
    const auto found =
            std::find_if(cursors_.begin(), cursors_.end(),
                         [name](const CursorPtr& cursor) { return cursor->name() == name; });
    return found != cursors_.end() ? *found : nullptr;
}

bool CursorSet::remove(const CheckpointCursor* cursor) {
    const auto found =
            std::find_if(cursors_.begin(), cursors_.end(),
                         [cursor](const CursorPtr& other) { return other.get() == cursor; });
    if (found == cursors_.end()) {
        return false;
    }
    (*found)->moveTo(nullptr, 0);
    std::swap(*found, cursors_.back());
    cursors_.pop_back();
    return true;
}

void CursorSet::clear() {
    for (const CursorPtr& cursor : cursors_) {
        cursor->moveTo(nullptr, 0);
    }
    cursors_.clear();
}

const CheckpointCursor* CursorSet::lowest() const {
    const auto lowest = std::min_element(cursors_.begin(), cursors_.end(), isBefore);
    return lowest != cursors_.end() ? lowest->get() : nullptr;
}

std::vector<size_t*> CursorSet::positionsIn(const Checkpoint& checkpoint) const {
    std::vector<size_t*> positions;
    positions.reserve(cursors_.size());
    for (const CursorPtr& cursor : cursors_) {
        if (cursor->checkpoint() == &checkpoint) {
            positions.push_back(cursor->positionSlot());
        }
    }
    return positions;
}

}  // namespace kv
