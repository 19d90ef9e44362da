#include "checkpoint/checkpoint_log.h"

#include <memory>
#include <new>
#include <utility>

#include "types/invariant.h"

namespace kv {

CheckpointLog::CheckpointLog(Vbid vbid, const CheckpointConfig& config,
                             const CheckpointStart& start, uint64_t coarseNowNs)
    : config_(config),
      vbid_(vbid),
      lastSnapshot_(start.snapshot),
      highSeqno_(start.highSeqno.get()) {
    openNext(coarseNowNs);
}

void CheckpointLog::openCheckpoint(SnapshotRange snapshot, CheckpointType type, uint64_t nowNs) {
    Checkpoint* before = list_.newest();
    if (before != nullptr && highSeqno() >= before->snapshot().start) {
        lastSnapshot_ = before->snapshot();
    }
    if (before != nullptr && !before->hasEntries()) {
        // Nobody can have read anything of it, so it becomes the new one.
        memory_.release(before->reuse(snapshot, next(highSeqno()), type));
        before->startClock(nowNs);
        for (const CursorPtr& cursor : cursors_.all()) {
            if (cursor->checkpoint() == before) {
                cursor->moveTo(before, before->beginPosition());
            }
        }
        return;
    }
    const CheckpointId id = before != nullptr ? next(before->id()) : CheckpointId{1};
    auto checkpoint = std::make_unique<Checkpoint>(id, snapshot, next(highSeqno()), type, nowNs);
    memory_.add(checkpoint->memory());
    if (before != nullptr) {
        memory_.release(before->close());
    }
    list_.append(std::move(checkpoint));
    for (const CursorPtr& cursor : cursors_.all()) {
        settle(*cursor);
    }
}

void CheckpointLog::compactOpen() {
    try {
        open().compact(cursors_.positionsIn(open()));
    } catch (const std::bad_alloc&) {
        // The mutation is already in the log; the next one tries again.
    }
}

bool CheckpointLog::leaveAll() noexcept {
    left_.append(cutBefore(&open()));
    if (!open().hasEntries()) {
        return true;
    }
    try {
        const size_t before = open().memory();
        auto entries = open().takeEntries();
        memory_.add(entries->memory());
        memory_.release(before - open().memory());
        left_.append(std::move(entries));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

CheckpointList CheckpointLog::startOver(const CheckpointStart& start, uint64_t nowNs,
                                        std::unique_ptr<Checkpoint> fresh) {
    invariant(!persistence_.isFlushing(), "no vBucket is cleared while it is flushed");
    const SnapshotRange empty{next(start.highSeqno), start.highSeqno};
    fresh->number(next(open().id()));
    (void)fresh->reuse(empty, empty.start, CheckpointType::Memory);  // it has no notes
    fresh->startClock(nowNs);
    memory_.add(fresh->memory());
    cursors_.clear();
    memory_.release(open().close());
    list_.append(std::move(fresh));
    lastSnapshot_ = start.snapshot;
    replica_ = false;
    publishHigh(start.highSeqno);
    persistence_.setUnpersisted(0);
    if (persistence_.cursor != nullptr) {
        cursors_.add(persistence_.cursor, &open(), open().beginPosition());
    }
    return list_.cutBefore(&open());
}

void CheckpointLog::settle(CheckpointCursor& cursor) const {
    Checkpoint* checkpoint = cursor.checkpoint();
    size_t position = cursor.position();
    while (checkpoint != list_.newest() && position >= checkpoint->endPosition()) {
        checkpoint = checkpoint->next();
        position = checkpoint->beginPosition();
    }
    cursor.moveTo(checkpoint, position);
}

size_t CheckpointLog::itemsFrom(const CheckpointCursor& cursor) {
    size_t items = cursor.checkpoint()->liveFrom(cursor.position());
    for (const Checkpoint* checkpoint = cursor.checkpoint()->next(); checkpoint != nullptr;
         checkpoint = checkpoint->next()) {
        items += checkpoint->liveItems();
    }
    return items;
}

CursorItems CheckpointLog::read(CheckpointCursor& cursor, size_t limit, size_t limitBytes) {
    CursorItems result;
    if (cursor.checkpoint() == nullptr) {
        return result;
    }
    // First the total, so that the vectors are allocated once in their final size, before the
    // cursor moves.
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
    settle(cursor);
    result.more = stop != nullptr && itemsFrom(cursor) > 0;
    return result;
}

}  // namespace kv
