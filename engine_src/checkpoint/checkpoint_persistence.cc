#include "checkpoint/checkpoint_persistence.h"

#include <memory>
#include <utility>

#include "checkpoint/checkpoint_cursors.h"
#include "types/invariant.h"

namespace kv {

namespace {

void endFlush(CheckpointLog& log) {
    log.cursors().remove(log.persistence().backup.get());
    log.persistence().taken = 0;
}

}  // namespace

void CheckpointPersistence::registerCursor() const {
    auto backup = std::make_shared<CheckpointCursor>("persistence-backup");
    auto cursor = CheckpointCursors(*log_).registerCursor("persistence", log_->highSeqno()).cursor;
    const auto lock = log_->lock();
    log_->persistence().cursor = std::move(cursor);
    log_->persistence().backup = std::move(backup);
}

CursorItems CheckpointPersistence::takeItemsToPersist(size_t limit, size_t limitBytes) const {
    const auto lock = log_->lock();
    PersistencePlace& place = log_->persistence();
    invariant(place.cursor != nullptr && !place.isFlushing(), "one flush of a vBucket at a time");
    log_->cursors().reserveOne();  // before the cursor moves: nothing may fail after that
    Checkpoint* checkpoint = place.cursor->checkpoint();
    const size_t position = place.cursor->position();
    CursorItems result = log_->read(*place.cursor, limit, limitBytes);
    place.taken = result.items.size();
    if (place.isFlushing()) {
        log_->cursors().add(place.backup, checkpoint, position);
    }
    return result;
}

void CheckpointPersistence::persisted() const {
    const auto lock = log_->lock();
    PersistencePlace& place = log_->persistence();
    if (place.isFlushing()) {
        place.setUnpersisted(place.unpersisted() - place.taken);
        endFlush(*log_);
    }
}

void CheckpointPersistence::persistFailed() const {
    const auto lock = log_->lock();
    PersistencePlace& place = log_->persistence();
    if (place.isFlushing()) {
        place.cursor->moveTo(place.backup->checkpoint(), place.backup->position());
        endFlush(*log_);
        place.setUnpersisted(CheckpointLog::itemsFrom(*place.cursor));
    }
}

}  // namespace kv
