#include "checkpoint/checkpoint_cursors.h"

#include <memory>
#include <vector>

#include "checkpoint/checkpoint_list.h"

namespace kv {

namespace {

/// Bytes that the thread which removes the last cursor frees itself: it may be a front-end thread.
constexpr size_t kFreedAtOnce = size_t{64} << 10;

/// Goes back to the checkpoint that contains `wanted`, as long as nothing is missing in between.
Checkpoint* findCheckpoint(Checkpoint* newest, Seqno wanted) {
    Checkpoint* checkpoint = newest;
    while (checkpoint->availableFrom() > wanted &&
           checkpoint->availableFrom() <= checkpoint->first() &&
           checkpoint->previous() != nullptr &&
           next(checkpoint->previous()->snapshot().end) >= checkpoint->first()) {
        checkpoint = checkpoint->previous();
    }
    return checkpoint;
}

/// Returns the bytes of the cursor's checkpoint that it has not read; stops counting at `enough`.
size_t bytesLeft(const CheckpointCursor& cursor, size_t enough) {
    const Checkpoint& checkpoint = *cursor.checkpoint();
    size_t bytes = 0;
    for (size_t at = cursor.position(); at < checkpoint.endPosition() && bytes <= enough; ++at) {
        const ItemPtr& item = checkpoint.at(at);
        bytes += item ? Checkpoint::itemMemory(*item) : 0;
    }
    return bytes;
}

}  // namespace

CursorRegistration CheckpointCursors::registerCursor(const std::string& name,
                                                     Seqno lastSeen) const {
    auto cursor = std::make_shared<CheckpointCursor>(name);
    const auto lock = log_->lock();
    CursorSet& cursors = log_->cursors();
    if (const CursorPtr old = cursors.find(name)) {
        cursors.remove(old.get());
    }
    if (cursors.empty() && !log_->open().hasEntries()) {
        log_->open().missingBefore(next(log_->highSeqno()));
    }
    const Seqno wanted = next(lastSeen);
    Checkpoint* checkpoint = findCheckpoint(&log_->open(), wanted);
    CursorRegistration registration{cursor, wanted, checkpoint->availableFrom() > wanted};
    if (registration.needsBackfill) {
        registration.nextSeqno = checkpoint->availableFrom();
    }
    cursors.add(cursor, checkpoint, checkpoint->positionAfter(lastSeen));
    log_->settle(*cursor);
    return registration;
}

bool CheckpointCursors::removeCursor(const CursorPtr& cursor) const {
    ExtractedCheckpoints unreachable;
    std::vector<ItemPtr> expelled;
    const auto lock = log_->lock();
    if (!log_->cursors().remove(cursor.get())) {
        return false;
    }
    if (log_->cursors().empty() && (log_->memory().bytes() <= kFreedAtOnce || !log_->leaveAll())) {
        // There are no readers any more, so nothing is kept.
        Checkpoint& open = log_->open();
        unreachable.adopt(log_->cutBefore(&open), log_->memory());
        log_->memory().release(open.expelBefore(open.endPosition(), expelled));
    }
    return true;
}

CursorPtr CheckpointCursors::findCursor(std::string_view name) const {
    const auto lock = log_->lock();
    return log_->cursors().find(name);
}

size_t CheckpointCursors::itemsLeft(const CursorPtr& cursor) const {
    const auto lock = log_->lock();
    return cursor->checkpoint() != nullptr ? CheckpointLog::itemsFrom(*cursor) : 0;
}

CursorItems CheckpointCursors::getItemsForCursor(const CursorPtr& cursor, size_t limit,
                                                 size_t limitBytes) const {
    const auto lock = log_->lock();
    const Checkpoint* checkpoint = cursor->checkpoint();
    if (checkpoint == nullptr || limitBytes == SIZE_MAX ||
        bytesLeft(*cursor, limitBytes) <= limitBytes) {
        return log_->read(*cursor, limit, limitBytes);
    }
    // Nothing is replaced in a replica's open checkpoint, because its snapshot has each key once.
    // Another one is closed, also beyond maxCheckpoints: such checkpoints are at most as many as
    // pieces of `limitBytes` in the log.
    if (checkpoint->isOpen() && !log_->isReplica()) {
        log_->openNext(checkpoint->createdAtNs());
    }
    return readPart(*cursor, limitBytes);
}

CursorItems CheckpointCursors::readPart(CheckpointCursor& cursor, size_t limitBytes) const {
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
    log_->settle(cursor);
    result.more = CheckpointLog::itemsFrom(cursor) > 0;
    return result;
}

}  // namespace kv
