// The CheckpointManager's cursors: registration, reading, and the persistence cursor's way back
// after a failed flush.
#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint_manager.h"
#include "types/invariant.h"

namespace kv {

CursorRegistration CheckpointManagerBase::registerCursor(const std::string& name, Seqno lastSeen) {
    auto cursor = std::make_shared<CheckpointCursor>(name);
    const std::lock_guard lock(queueLock_);
    if (const auto old =
                std::find_if(cursors_.begin(), cursors_.end(),
                             [&name](const CursorPtr& other) { return other->name() == name; });
        old != cursors_.end()) {
        (*old)->moveTo(nullptr, 0);
        cursors_.erase(old);
    }
    const Seqno wanted = next(lastSeen);
    if (cursors_.empty() && !list_.newest()->hasEntries()) {
        list_.newest()->missingBefore(next(highSeqno()));
    }
    // Back to the checkpoint that holds `wanted`, as long as nothing is missing in between.
    Checkpoint* checkpoint = list_.newest();
    while (checkpoint->availableFrom() > wanted &&
           checkpoint->availableFrom() <= checkpoint->first() &&
           checkpoint->previous() != nullptr &&
           next(checkpoint->previous()->snapshot().end) >= checkpoint->first()) {
        checkpoint = checkpoint->previous();
    }
    CursorRegistration registration{cursor, wanted, checkpoint->availableFrom() > wanted};
    if (registration.needsBackfill) {
        registration.nextSeqno = checkpoint->availableFrom();
    }
    cursors_.push_back(cursor);
    cursor->moveTo(checkpoint, checkpoint->positionAfter(lastSeen));
    normalise(*cursor);
    return registration;
}

bool CheckpointManagerBase::eraseCursor(const CheckpointCursor* cursor) {
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

bool CheckpointManagerBase::removeCursor(const CursorPtr& cursor) {
    ExtractedCheckpoints unreachable;
    std::vector<ItemPtr> expelled;
    const std::lock_guard lock(queueLock_);
    if (!eraseCursor(cursor.get())) {
        return false;
    }
    if (cursors_.empty()) {
        // Nobody reads any more: keep nothing.
        Checkpoint& open = *list_.newest();
        unreachable.adopt(list_.cutBefore(&open), this);
        releaseMemory(open.expelBefore(open.endPosition(), expelled));
    }
    return true;
}

CursorPtr CheckpointManagerBase::findCursor(std::string_view name) const {
    const std::lock_guard lock(queueLock_);
    const auto found =
            std::find_if(cursors_.begin(), cursors_.end(),
                         [name](const CursorPtr& cursor) { return cursor->name() == name; });
    return found != cursors_.end() ? *found : nullptr;
}

size_t CheckpointManagerBase::countFrom(const CheckpointCursor& cursor) const {
    size_t items = cursor.checkpoint()->liveFrom(cursor.position());
    for (const Checkpoint* checkpoint = cursor.checkpoint()->next(); checkpoint != nullptr;
         checkpoint = checkpoint->next()) {
        items += checkpoint->liveItems();
    }
    return items;
}

size_t CheckpointManagerBase::itemsLeft(const CursorPtr& cursor) const {
    const std::lock_guard lock(queueLock_);
    return cursor->checkpoint() != nullptr ? countFrom(*cursor) : 0;
}

size_t CheckpointManagerBase::bytesLeft(const CheckpointCursor& cursor, size_t enough) {
    const Checkpoint& checkpoint = *cursor.checkpoint();
    size_t bytes = 0;
    for (size_t at = cursor.position(); at < checkpoint.endPosition() && bytes <= enough; ++at) {
        const ItemPtr& item = checkpoint.at(at);
        bytes += item ? Checkpoint::itemMemory(*item) : 0;
    }
    return bytes;
}

CursorItems CheckpointManagerBase::getItemsForCursor(const CursorPtr& cursor, size_t limit,
                                                     size_t limitBytes) {
    const std::lock_guard lock(queueLock_);
    const Checkpoint* checkpoint = cursor->checkpoint();
    if (checkpoint == nullptr || limitBytes == SIZE_MAX ||
        bytesLeft(*cursor, limitBytes) <= limitBytes) {
        return read(*cursor, limit, limitBytes);
    }
    // Of a replica's open checkpoint nothing is replaced: its snapshot has each key once.
    if (checkpoint->isOpen() && !replica_) {
        if (list_.size() >= config_.maxCheckpoints) {
            return read(*cursor, 1, limitBytes);
        }
        openCheckpoint({next(highSeqno()), highSeqno()}, CheckpointType::Memory,
                       checkpoint->createdAtNs());
    }
    return readPart(*cursor, limitBytes);
}

CursorItems CheckpointManagerBase::readPart(CheckpointCursor& cursor, size_t limitBytes) {
    CursorItems result;
    Checkpoint& checkpoint = *cursor.checkpoint();
    size_t position = cursor.position();
    size_t items = 0;
    for (size_t bytes = 0; position < checkpoint.endPosition() && bytes < limitBytes; ++position) {
        if (const ItemPtr& item = checkpoint.at(position); item) {
            bytes += Checkpoint::itemMemory(*item);
            ++items;
        }
    }
    result.items.reserve(items);
    result.ranges.reserve(1);
    for (size_t at = cursor.position(); at < position; ++at) {
        if (const ItemPtr& item = checkpoint.at(at); item) {
            result.items.push_back(item);
        }
    }
    if (items > 0) {
        result.ranges.push_back({checkpoint.snapshot(), checkpoint.type(), items});
    }
    cursor.moveTo(&checkpoint, position);
    normalise(cursor);
    result.more = countFrom(cursor) > 0;
    return result;
}

CursorItems CheckpointManagerBase::read(CheckpointCursor& cursor, size_t limit, size_t limitBytes) {
    CursorItems result;
    if (cursor.checkpoint() == nullptr) {
        return result;
    }
    // First how much, so that the vectors are allocated once and to size, and before the cursor
    // moves.
    size_t total = 0;
    size_t ranges = 0;
    size_t bytes = 0;
    const Checkpoint* stop = cursor.checkpoint();
    for (size_t position = cursor.position();
         stop != nullptr && (total == 0 || (total < limit && bytes + stop->memory() <= limitBytes));
         stop = stop->next()) {
        total += stop->liveFrom(position);
        bytes += stop->memory();
        position = 0;
        ++ranges;
    }
    result.items.reserve(total);
    result.ranges.reserve(ranges);
    Checkpoint* checkpoint = cursor.checkpoint();
    size_t position = cursor.position();
    while (true) {
        const size_t before = result.items.size();
        for (const size_t end = checkpoint->endPosition(); position < end; ++position) {
            if (const ItemPtr& item = checkpoint->at(position); item) {
                result.items.push_back(item);
            }
        }
        if (const size_t items = result.items.size() - before; items > 0) {
            result.ranges.push_back({checkpoint->snapshot(), checkpoint->type(), items});
        }
        if (checkpoint->next() == stop) {
            break;
        }
        checkpoint = checkpoint->next();
        position = checkpoint->beginPosition();
    }
    cursor.moveTo(checkpoint, position);
    normalise(cursor);
    result.more = stop != nullptr && countFrom(cursor) > 0;
    return result;
}

// --- persistence
// -----------------------------------------------------------------------------------------------------

void CheckpointManagerBase::registerPersistenceCursor() {
    auto persistence = registerCursor("persistence", highSeqno()).cursor;
    auto backup = std::make_shared<CheckpointCursor>("persistence-backup");
    const std::lock_guard lock(queueLock_);
    persistence_ = std::move(persistence);
    backup_ = std::move(backup);
}

bool CheckpointManagerBase::hasPersistenceCursor() const {
    const std::lock_guard lock(queueLock_);
    return persistence_ != nullptr;
}

CursorItems CheckpointManagerBase::takeItemsToPersist(size_t limit) {
    const std::lock_guard lock(queueLock_);
    invariant(persistence_ != nullptr && !backupActive_, "one flush of a vBucket at a time");
    cursors_.reserve(cursors_.size() + 1);  // before the cursor moves: nothing may fail after that
    Checkpoint* checkpoint = persistence_->checkpoint();
    const size_t position = persistence_->position();
    CursorItems result = read(*persistence_, limit, SIZE_MAX);
    taken_ = result.items.size();
    if (taken_ > 0) {
        backup_->moveTo(checkpoint, position);
        cursors_.push_back(backup_);
        backupActive_ = true;
    }
    return result;
}

void CheckpointManagerBase::persisted() {
    const std::lock_guard lock(queueLock_);
    if (backupActive_) {
        eraseCursor(backup_.get());
        backupActive_ = false;
        setUnpersisted(unpersisted() - taken_);
    }
}

void CheckpointManagerBase::persistFailed() {
    const std::lock_guard lock(queueLock_);
    if (backupActive_) {
        persistence_->moveTo(backup_->checkpoint(), backup_->position());
        eraseCursor(backup_.get());
        backupActive_ = false;
        setUnpersisted(countFrom(*persistence_));
    }
}

}  // namespace kv
