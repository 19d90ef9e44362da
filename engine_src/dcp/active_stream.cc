#include "dcp/active_stream.h"

#include <algorithm>
#include <new>
#include <utility>

namespace kv::dcp {

namespace {
/// Items that one look at the checkpoints brings: whole checkpoints until this many.
constexpr size_t kSnapshotItems = 10'000;
}  // namespace

ActiveStream::ActiveStream(const StreamRequest& request, std::string name,
                           CheckpointCursors checkpoints, BackfillSource& source)
    : request_(request),
      name_(std::move(name)),
      checkpoints_(checkpoints),
      source_(source),
      unsent_(source.unsent()),
      lastRead_(request.start),
      consistent_(request.snapshot ? request.snapshot->start : request.start),
      whole_(request.snapshot ? request.snapshot->end : request.start),
      lastSent_(request.start) {
    const Lock lock(mutex_);
    registerCursor(lock);
    finishIfComplete(lock);
}

ActiveStream::~ActiveStream() {
    const Lock lock(mutex_);
    if (cursor_) {
        checkpoints_.removeCursor(cursor_);
    }
}

void ActiveStream::registerCursor(const Lock& /*lock*/) {
    const auto registration = checkpoints_.registerCursor(name_, lastRead_);
    cursor_ = registration.cursor;
    cursorNext_ = registration.nextSeqno;
    const bool backfill = registration.needsBackfill || request_.diskOnly;
    state_.store(backfill ? StreamState::Backfilling : StreamState::InMemory,
                 std::memory_order_release);
}

bool ActiveStream::notifySeqnoUnderMutex() {
    const Lock lock(mutex_);
    return notifySeqno();
}

std::optional<Message> ActiveStream::next(StreamNeeds& needs, ListWhilePending pending) {
    needs = StreamNeeds::Nothing;
    const Lock lock(mutex_);
    if (ready_.empty() && toEnd_) {
        return Message::streamEnd(vbid(), opaque(), *std::exchange(toEnd_, std::nullopt));
    }
    if (ready_.empty()) {
        // Idle first, look second: a seqno that comes after the look finds the stream idle and
        // lists it again.
        itemsReady_.exchange(false, std::memory_order_acq_rel);
        switch (state_.load(std::memory_order_relaxed)) {
            case StreamState::Backfilling:
                needs = StreamNeeds::Backfill;
                break;
            case StreamState::InMemory:
                if (checkpoints_.highSeqno() > lastRead_) {
                    needs = StreamNeeds::Snapshot;
                }
                break;
            case StreamState::Dead:
                break;
        }
        if (needs == StreamNeeds::Backfill ||
            (needs == StreamNeeds::Snapshot && pending == ListWhilePending::No)) {
            itemsReady_.store(true, std::memory_order_release);
        }
        return std::nullopt;
    }
    Message message = std::move(ready_.front());
    ready_.pop_front();
    unsent_.giveBack(message.wireSize());
    if (message.item) {
        lastSent_ = message.item->seqno();
    }
    return message;
}

bool ActiveStream::takeSnapshot() {
    const Lock lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != StreamState::InMemory) {
        return waiting(lock) != 0;
    }
    try {
        readCheckpoints(lock);
    } catch (const std::bad_alloc&) {
        // The cursor has gone on, and what it brought is gone.
        dropCursor(lock);
        return true;
    }
    return waiting(lock) != 0;
}

void ActiveStream::readCheckpoints(const Lock& lock) {
    const size_t most = unsent_.sum() < source_.mostUnsent() ? kReadBytes : kReadLeast;
    auto read = checkpoints_.getItemsForCursor(cursor_, kSnapshotItems, most);
    auto item = read.items.begin();
    for (const auto& range : read.ranges) {
        const auto last = item + static_cast<std::ptrdiff_t>(range.items);
        const Seqno lastOfRange = (*std::prev(last))->seqno();
        // What a backfill already sent, or what lies beyond the client's wish, stays out.
        const auto stop = std::remove_if(item, last, [this](const ItemPtr& candidate) {
            return candidate->isMeta() || candidate->seqno() <= lastRead_ ||
                   candidate->seqno() > request_.end;
        });
        if (item != stop) {
            // A replica has perhaps received a part of the snapshot: its end is the sender's, and
            // the rest needs no marker of its own.
            const Seqno end = std::min(std::max((*std::prev(stop))->seqno(), range.snapshot.end),
                                       request_.end);
            if (end != markedEnd_ || (*item)->seqno() > markedEnd_) {
                const uint32_t flags =
                        (range.type == CheckpointType::Disk ? kMarkerDisk : kMarkerMemory) |
                        kMarkerCheckpoint;
                mark(end, flags, lock);
            }
            for (auto it = item; it != stop; ++it) {
                const Seqno seqno = (*it)->seqno();
                push(Message::document(opaque(), std::move(*it), request_.format), lock);
                lastRead_ = seqno;
                ++fromMemory_;
            }
        }
        // Not the snapshot's end: on a replica it is promised before its items have arrived.
        lastRead_ = std::max(lastRead_, std::min(lastOfRange, request_.end));
        item = last;
    }
    unsent_.tell();
    finishIfComplete(lock);
}

void ActiveStream::runBackfill() {
    try {
        if (!prepareBackfill()) {
            scan_.reset();
            return;
        }
        // The scan runs without the mutex: it may wait for the disk, and the front end must not
        // wait for it.
        const Scanned scanned = scan();
        if (scanned == Scanned::Paused) {
            return;
        }
        const Seqno high = scan_ ? scan_->high() : Seqno{};
        scan_.reset();
        finishBackfill(scanned, high);
    } catch (const std::bad_alloc&) {
        scan_.reset();  // what it brought last may be gone
    }
}

bool ActiveStream::prepareBackfill() {
    const Lock lock(mutex_);
    if (!isBackfilling()) {
        return false;
    }
    if (!scan_ && !cursor_) {
        registerCursor(lock);  // it was dropped; meanwhile memory may reach back far enough
    }
    return isBackfilling();
}

ActiveStream::Scanned ActiveStream::scan() {
    if (!scan_) {
        marked_ = false;
        scan_ = source_.open(vbid(), lastRead());
        if (!scan_) {
            return Scanned::Failed;
        }
        if (const Seqno known = lastRead(); known != Seqno{} && known < scan_->purged()) {
            return Scanned::MissedDeletions;
        }
    }
    const Seqno snapshotEnd = std::min(scan_->snapshotEnd(), request_.end);
    ItemPtr item;
    while (true) {
        switch (scan_->next(item)) {
            case BackfillScan::Step::Failed:
                return Scanned::Failed;
            case BackfillScan::Step::End:
                return Scanned::Complete;
            case BackfillScan::Step::Item:
                break;
        }
        const Lock lock(mutex_);
        if (!isBackfilling() || item->seqno() > request_.end) {
            return Scanned::Complete;
        }
        if (!std::exchange(marked_, true)) {
            mark(snapshotEnd, kMarkerDisk, lock);
        }
        const Seqno seqno = item->seqno();
        push(Message::document(opaque(), std::move(item), request_.format), lock);
        lastRead_ = seqno;
        ++backfilled_;
        if (hasReadEnough(lock)) {
            unsent_.tell();
            return Scanned::Paused;
        }
    }
}

void ActiveStream::finishBackfill(Scanned scanned, Seqno high) {
    const Lock lock(mutex_);
    if (!isBackfilling()) {
        return;
    }
    if (scanned == Scanned::Failed) {
        endLocked(EndStatus::BackfillFailed, false, lock);
        return;
    }
    if (scanned == Scanned::MissedDeletions) {
        endLocked(EndStatus::Rollback, false, lock);
        return;
    }
    lastRead_ = std::max(lastRead_, std::min(high, request_.end));
    if (request_.diskOnly) {
        endLocked(EndStatus::Ok, false, lock);
        return;
    }
    finishIfComplete(lock);
    // Without a gap between what was read and where the cursor stands, memory takes over; else the
    // next round does.
    if (isBackfilling() && cursor_ && cursorNext_ <= kv::next(lastRead_)) {
        state_.store(StreamState::InMemory, std::memory_order_release);
    }
}

bool ActiveStream::cursorDropped(const CursorPtr& cursor) {
    const Lock lock(mutex_);
    if (cursor_ != cursor || state_.load(std::memory_order_relaxed) == StreamState::Dead) {
        return false;
    }
    dropCursor(lock);
    ++cursorDrops_;
    return true;
}

void ActiveStream::dropCursor(const Lock& /*lock*/) {
    checkpoints_.removeCursor(cursor_);
    cursor_.reset();
    state_.store(StreamState::Backfilling, std::memory_order_release);
}

void ActiveStream::end(EndStatus status, bool silently) noexcept {
    const Lock lock(mutex_);
    endLocked(status, silently, lock);
}

Seqno ActiveStream::lastRead() const {
    const Lock lock(mutex_);
    return lastRead_;
}

bool ActiveStream::drained() const {
    const Lock lock(mutex_);
    return state_.load(std::memory_order_relaxed) == StreamState::Dead && waiting(lock) == 0;
}

void ActiveStream::push(Message message, const Lock& /*lock*/) {
    const size_t bytes = message.wireSize();
    ready_.push_back(std::move(message));
    unsent_.take(bytes);
}

bool ActiveStream::hasReadEnough(const Lock& /*lock*/) const {
    return unsent_.bytes() >= kReadBytes ||
           (unsent_.bytes() >= kReadLeast && unsent_.sum() >= source_.mostUnsent());
}

void ActiveStream::mark(Seqno end, uint32_t flags, const Lock& lock) {
    const Seqno consistent = lastRead_ >= whole_ ? whole_ : consistent_;
    // Whoever has a snapshot in part is not consistent at the end of a shorter one: the rest may
    // hold the only version of what was replaced in what he has.
    const Seqno whole = std::max(whole_, end);
    // Of now: who has what is purged meanwhile is told of more than he must be, which costs him a
    // rollback at most that he would have here, too.
    const Seqno purged = request_.format.purges ? source_.purged(vbid()) : Seqno{};
    push(Message::marker(vbid(), opaque(), consistent, whole, flags, purged), lock);
    consistent_ = consistent;
    whole_ = whole;
    markedEnd_ = end;
}

void ActiveStream::finishIfComplete(const Lock& lock) {
    if (state_.load(std::memory_order_relaxed) != StreamState::Dead && lastRead_ >= request_.end) {
        endLocked(EndStatus::Ok, false, lock);
    }
}

void ActiveStream::endLocked(EndStatus status, bool silently, const Lock& /*lock*/) noexcept {
    if (state_.load(std::memory_order_relaxed) == StreamState::Dead) {
        return;
    }
    if (status == EndStatus::Rollback) {
        // What waits is of a history that is none.
        ready_.clear();
        unsent_.giveBackAll();
    }
    if (!silently) {
        toEnd_ = status;
    }
    state_.store(StreamState::Dead, std::memory_order_release);
    if (cursor_) {
        checkpoints_.removeCursor(cursor_);
        cursor_.reset();
    }
}

ActiveStream::Stats ActiveStream::stats() const {
    const Lock lock(mutex_);
    return {state_.load(std::memory_order_relaxed),
            lastRead_,
            lastSent_,
            request_.end,
            waiting(lock),
            unsent_.bytes(),
            backfilled_,
            fromMemory_,
            cursorDrops_};
}

}  // namespace kv::dcp
