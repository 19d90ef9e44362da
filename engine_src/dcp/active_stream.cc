#include "dcp/active_stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include "options/mutation.h"

namespace kv::dcp {

namespace {
/// Items that one read of the checkpoints yields: whole checkpoints until this number.
constexpr size_t kSnapshotItems = 10'000;
}  // namespace

ActiveStream::ActiveStream(const StreamRequest& request, std::string name,
                           CheckpointCursors checkpoints, BackfillSource& source, ScanSlots* slots)
    : request_(request),
      name_(std::move(name)),
      checkpoints_(checkpoints),
      source_(source),
      slots_(slots != nullptr ? *slots : source.slots()),
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
        // Idle first, then look: a seqno that comes after the look finds the stream idle and lists
        // it again.
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
        // The cursor has advanced, and the items it returned are lost.
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
        if (isComplete(lock)) {
            break;
        }
        const auto last = item + static_cast<std::ptrdiff_t>(range.items);
        const Seqno lastOfRange = (*std::prev(last))->seqno();
        // Items that a backfill already sent are left out.
        const auto stop = std::remove_if(item, last, [this](const ItemPtr& candidate) {
            return candidate->seqno() <= lastRead_;
        });
        if (item != stop) {
            // A replica may have received only a part of the snapshot: the sender determines its
            // end, and the rest needs no further marker.
            const Seqno end = std::max((*std::prev(stop))->seqno(), range.snapshot.end);
            if (end != markedEnd_ || (*item)->seqno() > markedEnd_) {
                const uint32_t flags =
                        (range.type == CheckpointType::Disk ? kMarkerDisk : kMarkerMemory) |
                        kMarkerCheckpoint;
                mark(end, flags, lock);
            }
            for (auto it = item; it != stop; ++it) {
                const Seqno seqno = (*it)->seqno();
                if (!options::mutated(options::Mutation::DocumentNotSent, 500)) {
                    push(Message::document(opaque(), std::move(*it), request_.format), lock);
                }
                lastRead_ = seqno;
                ++fromMemory_;
            }
        }
        // Not the snapshot's end: on a replica it is announced before its items have arrived.
        lastRead_ = std::max(lastRead_, lastOfRange);
        item = last;
    }
    unsent_.publish();
    finishIfComplete(lock);
}

bool ActiveStream::runBackfill() {
    const std::lock_guard running(scanMutex_);
    try {
        if (!prepareBackfill()) {
            closeScan();
            view_.reset();
            return true;
        }
        if (!scan_ && !slot_.take(slots_)) {
            return false;
        }
        // The scan runs without the mutex: it may wait for the disk, and the front end must not
        // wait for it.
        const Scanned scanned = scan();
        reads_.fetch_add(1, std::memory_order_relaxed);
        if (scanned == Scanned::Paused) {
            return true;
        }
        closeScan();
        if (scanned != Scanned::GivenUp) {
            finishBackfill(scanned);
            view_.reset();
        }
    } catch (const std::bad_alloc&) {
        closeScan();  // the items it read last may be gone
    }
    return true;
}

void ActiveStream::closeScan() noexcept {
    scan_.reset();
    slot_.release();
}

bool ActiveStream::giveScanBack() noexcept {
    const std::unique_lock idle(scanMutex_, std::try_to_lock);
    if (!idle || !scan_) {
        return false;
    }
    closeScan();
    scansGivenBack_.fetch_add(1, std::memory_order_relaxed);
    return true;
}

bool ActiveStream::prepareBackfill() {
    const Lock lock(mutex_);
    if (!isBackfilling()) {
        return false;
    }
    if (!scan_ && !cursor_) {
        registerCursor(lock);  // it was dropped; by now memory may reach back far enough
    }
    return isBackfilling();
}

ActiveStream::Scanned ActiveStream::openScan() {
    const Seqno known = lastRead();
    scan_ = source_.open(vbid(), known, view_ ? view_->high : Seqno{UINT64_MAX});
    if (!scan_) {
        return Scanned::Failed;
    }
    const Seqno purged = scan_->purged();
    if (view_) {
        if (known < purged && view_->purged < purged) {
            return Scanned::MissedDeletions;
        }
        if (known < view_->high) {
            extendView();
        }
        return Scanned::Complete;
    }
    // A client that has nothing yet receives no document of this view whose deletion is in the
    // view, so a later purge of that deletion costs it nothing.
    view_ = View{scan_->high(), scan_->snapshotEnd(), scan_->high(),
                 known == Seqno{} ? Seqno{UINT64_MAX} : purged};
    marked_ = false;
    return known != Seqno{} && known < purged ? Scanned::MissedDeletions : Scanned::Complete;
}

void ActiveStream::extendView() {
    const Seqno end = scan_->snapshotEnd();
    if (end > view_->snapshotEnd) {
        const Lock lock(mutex_);
        if (marked_ && isBackfilling()) {
            mark(end, kMarkerDisk, lock);
        }
        view_->snapshotEnd = end;
    }
    view_->movedTo = scan_->high();
}

ActiveStream::Scanned ActiveStream::scan() {
    if (!scan_) {
        if (const Scanned opened = openScan(); opened != Scanned::Complete) {
            return opened;
        }
    }
    ItemPtr item;
    while (true) {
        switch (scan_->next(item)) {
            case BackfillScan::Step::Failed:
                return Scanned::Failed;
            case BackfillScan::Step::GivenUp:
                return Scanned::GivenUp;
            case BackfillScan::Step::End:
                return Scanned::Complete;
            case BackfillScan::Step::Item:
                break;
        }
        const Lock lock(mutex_);
        if (!isBackfilling()) {
            return Scanned::Complete;
        }
        if (!marked_) {
            mark(view_->snapshotEnd, kMarkerDisk, lock);
            marked_ = true;
        }
        const Seqno seqno = item->seqno();
        push(Message::document(opaque(), std::move(item), request_.format), lock);
        lastRead_ = seqno;
        ++backfilled_;
        if (hasReadEnough(lock)) {
            unsent_.publish();
            return Scanned::Paused;
        }
    }
}

void ActiveStream::finishBackfill(Scanned scanned) {
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
    lastRead_ = std::max(lastRead_, view_->high);
    // What follows has a marker of its own: it may have later versions of documents of the view.
    markedEnd_ = lastRead_;
    if (request_.diskOnly) {
        if (view_->movedTo <= lastRead_) {
            endLocked(EndStatus::Ok, false, lock);
        }
        return;  // what moved needs another view
    }
    finishIfComplete(lock);
    // If there is no gap between the last item read and the cursor, memory takes over; otherwise
    // the next round does.
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
    {
        const Lock lock(mutex_);
        endLocked(status, silently, lock);
    }
    giveScanBack();
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
    // A client that has a part of a snapshot is not consistent at the end of a shorter one: the
    // rest may hold the only version of a document whose earlier version was replaced in its part.
    const Seqno whole = std::max(whole_, end);
    // The current value: a client that has documents which are purged in the meantime is warned of
    // more than necessary. That costs it at most a rollback that it would otherwise get here.
    const Seqno purged = request_.format.purges ? source_.purged(vbid()) : Seqno{};
    const bool early = options::mutated(options::Mutation::SnapshotEndEarly, 20);
    push(Message::marker(vbid(), opaque(), consistent, early ? kv::next(lastRead_) : whole, flags,
                         purged),
         lock);
    consistent_ = consistent;
    whole_ = whole;
    markedEnd_ = end;
}

bool ActiveStream::isComplete(const Lock& /*lock*/) const {
    // A replica may have received only a part of the snapshot; the marker shows that.
    return lastRead_ >= request_.end && lastRead_ >= std::min(whole_, checkpoints_.highSeqno());
}

void ActiveStream::finishIfComplete(const Lock& lock) {
    if (state_.load(std::memory_order_relaxed) != StreamState::Dead && isComplete(lock)) {
        endLocked(EndStatus::Ok, false, lock);
    }
}

void ActiveStream::endLocked(EndStatus status, bool silently, const Lock& /*lock*/) noexcept {
    if (state_.load(std::memory_order_relaxed) == StreamState::Dead) {
        return;
    }
    if (status == EndStatus::Rollback) {
        // The waiting messages belong to a history that has ended.
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
            cursorDrops_,
            scansGivenBack_.load(std::memory_order_relaxed)};
}

}  // namespace kv::dcp
