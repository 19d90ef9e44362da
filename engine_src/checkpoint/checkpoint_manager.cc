#include "checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kv {

namespace {

/// Order of the places in the log that two cursors are at.
bool isBefore(const CursorPtr& a, const CursorPtr& b) {
    if (a->checkpointId() != b->checkpointId()) {
        return a->checkpointId() < b->checkpointId();
    }
    return a->position() < b->position();
}

}  // namespace

ExtractedCheckpoints::~ExtractedCheckpoints() {
    if (list_.empty()) {
        return;
    }
    size_t bytes = 0;
    for (const Checkpoint* checkpoint = list_.oldest(); checkpoint != nullptr;
         checkpoint = checkpoint->next()) {
        bytes += checkpoint->memory();
    }
    list_.clear();
    manager_->releaseMemory(bytes);
}

CheckpointManagerBase::CheckpointManagerBase(Vbid vbid, const CheckpointConfig& config,
                                             const CheckpointStart& start, uint64_t coarseNowNs)
    : config_(config),
      vbid_(vbid),
      lastSnapshot_(start.snapshot),
      maxCas_(start.maxCas.get()),
      highSeqno_(start.highSeqno.get()) {
    openCheckpoint({next(start.highSeqno), start.highSeqno}, CheckpointType::Memory, coarseNowNs);
}

// --- writers
// ---------------------------------------------------------------------------------------------------------

Cas CheckpointManagerBase::nextCas(uint64_t nowNs) {
    maxCas_ = std::max(maxCas_ + 1, nowNs);
    return Cas{maxCas_};
}

bool CheckpointManagerBase::shouldClose(uint64_t nowNs) const {
    const Checkpoint& open = *list_.newest();
    if (open.liveItems() == 0) {
        return false;
    }
    const bool old = nowNs > open.createdAtNs() &&
                     nowNs - open.createdAtNs() >= static_cast<uint64_t>(config_.period.count());
    if (!old && open.liveItems() < config_.maxItems) {
        return false;
    }
    const size_t checkpoints = list_.size();
    return checkpoints < config_.maxCheckpoints ||
           (checkpoints == config_.maxCheckpoints && list_.oldest()->cursorCount() == 0);
}

void CheckpointManagerBase::openCheckpoint(SnapshotRange snapshot, CheckpointType type,
                                           uint64_t nowNs) {
    Checkpoint* before = list_.newest();
    if (before != nullptr && highSeqno() >= before->snapshot().start) {
        lastSnapshot_ = before->snapshot();
    }
    if (before != nullptr && !before->hasEntries()) {
        // Nobody can have read anything of it: it becomes the new one.
        before->reuse(snapshot, type);
        before->startClock(nowNs);
        for (const CursorPtr& cursor : cursors_) {
            if (cursor->checkpoint() == before) {
                cursor->moveTo(before, before->beginPosition());
            }
        }
        return;
    }
    const CheckpointId id = before != nullptr ? next(before->id()) : CheckpointId{1};
    auto checkpoint = std::make_unique<Checkpoint>(id, snapshot, type, nowNs);
    addMemory(checkpoint->memory());
    if (before != nullptr) {
        before->close();
    }
    list_.append(std::move(checkpoint));
    for (const CursorPtr& cursor : cursors_) {
        normalise(*cursor);
    }
}

void CheckpointManagerBase::normalise(CheckpointCursor& cursor) {
    Checkpoint* checkpoint = cursor.checkpoint();
    size_t position = cursor.position();
    while (checkpoint != list_.newest() && position >= checkpoint->endPosition()) {
        checkpoint = checkpoint->next();
        position = checkpoint->beginPosition();
    }
    cursor.moveTo(checkpoint, position);
}

QueueResult CheckpointManagerBase::queueDirty(ItemPtr item, Seqno previous,
                                              GenerateSeqno generateSeqno, GenerateCas generateCas,
                                              uint64_t coarseNowNs) {
    ItemPtr replaced;  // freed after the lock
    const std::lock_guard lock(queueLock_);
    const bool active = generateSeqno == GenerateSeqno::Yes;
    const Seqno high = highSeqno();
    if (active && (replica_ || (!cursors_.empty() && shouldClose(coarseNowNs)))) {
        openCheckpoint({next(high), high}, CheckpointType::Memory, coarseNowNs);
    }
    replica_ = !active;
    if (active) {
        item->setSeqno(next(high));
    }
    assert(item->seqno() > high);
    if (generateCas == GenerateCas::Yes) {
        item->setCas(nextCas(coarseNowNs));
    } else {
        maxCas_ = std::max(maxCas_, item->cas().get());
    }
    QueueResult result{item->seqno(), item->cas(), QueueStatus::NewItem};
    Checkpoint& open = *list_.newest();
    if (cursors_.empty()) {
        open.extendSnapshot(std::max(open.snapshot().end, result.seqno));
        publishHigh(result.seqno);
        replaced = std::move(item);
        return result;
    }

    if (previous == Seqno{}) {
        previous = open.takeTombstone(item->key());
    }
    const size_t old =
            previous >= open.availableFrom() ? open.positionOf(previous) : Checkpoint::kNowhere;
    if (!open.hasEntries()) {
        open.startClock(coarseNowNs);
    }
    const size_t memoryBefore = open.memory();
    assert(old == Checkpoint::kNowhere || !open.at(old) || open.at(old)->key() == item->key());
    open.append(std::move(item));
    addMemory(open.memory() - memoryBefore);
    if (old != Checkpoint::kNowhere && open.at(old)) {
        const bool taken = persistence_ != nullptr && persistence_->checkpoint() == &open &&
                           persistence_->position() > old;
        result.status = taken ? QueueStatus::PersistAgain : QueueStatus::ExistingItem;
        const size_t withOld = open.memory();
        replaced = open.remove(old);
        if (open.wantsCompaction()) {
            compactOpen();
        }
        releaseMemory(withOld - open.memory());
    }
    if (persistence_ != nullptr && result.status != QueueStatus::ExistingItem) {
        setUnpersisted(unpersisted() + 1);
    }
    publishHigh(result.seqno);
    return result;
}

std::optional<QueueResult> CheckpointManagerBase::assignOnly(uint64_t coarseNowNs) {
    const std::lock_guard lock(queueLock_);
    if (!cursors_.empty()) {
        return std::nullopt;
    }
    const Seqno high = highSeqno();
    if (replica_) {
        openCheckpoint({next(high), high}, CheckpointType::Memory, coarseNowNs);
        replica_ = false;
    }
    list_.newest()->extendSnapshot(next(high));
    publishHigh(next(high));
    return QueueResult{next(high), nextCas(coarseNowNs), QueueStatus::NewItem};
}

void CheckpointManagerBase::noteTombstoneRemoved(std::string_view key, Seqno seqno) {
    const std::lock_guard lock(queueLock_);
    Checkpoint& open = *list_.newest();
    if (!cursors_.empty() && seqno >= open.availableFrom() &&
        open.positionOf(seqno) != Checkpoint::kNowhere) {
        open.noteTombstone(key, seqno);
    }
}

void CheckpointManagerBase::createSnapshot(SnapshotRange snapshot, CheckpointType type, bool extend,
                                           uint64_t coarseNowNs) {
    const std::lock_guard lock(queueLock_);
    if (extend && replica_) {
        list_.newest()->extendSnapshot(snapshot.end);
        return;
    }
    openCheckpoint(snapshot, type, coarseNowNs);
    replica_ = true;
}

void CheckpointManagerBase::compactOpen() {
    Checkpoint& open = *list_.newest();
    std::vector<size_t*> positions;
    for (const CursorPtr& cursor : cursors_) {
        if (cursor->checkpoint() == &open) {
            positions.push_back(cursor->positionSlot());
        }
    }
    open.compact(std::move(positions));
}

Cas CheckpointManagerBase::maxCas() const {
    const std::lock_guard lock(queueLock_);
    return Cas{maxCas_};
}

SnapshotRange CheckpointManagerBase::currentSnapshot() const {
    const std::lock_guard lock(queueLock_);
    const SnapshotRange open = list_.newest()->snapshot();
    return highSeqno() >= open.start ? open : lastSnapshot_;
}

// --- cursors
// ---------------------------------------------------------------------------------------------------------

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
           checkpoint->availableFrom() <= checkpoint->snapshot().start &&
           checkpoint->previous() != nullptr &&
           next(checkpoint->previous()->snapshot().end) >= checkpoint->snapshot().start) {
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

CursorItems CheckpointManagerBase::getItemsForCursor(const CursorPtr& cursor, size_t limit) {
    const std::lock_guard lock(queueLock_);
    return read(*cursor, limit);
}

CursorItems CheckpointManagerBase::read(CheckpointCursor& cursor, size_t limit) {
    CursorItems result;
    if (cursor.checkpoint() == nullptr) {
        return result;
    }
    // First how much, so that the vector is allocated once and to size.
    size_t total = 0;
    const Checkpoint* stop = cursor.checkpoint();
    for (size_t position = cursor.position(); stop != nullptr && (total == 0 || total < limit);
         stop = stop->next()) {
        total += stop->liveFrom(position);
        position = 0;
    }
    result.items.reserve(total);
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
    assert(persistence_ != nullptr && !backupActive_);
    Checkpoint* checkpoint = persistence_->checkpoint();
    const size_t position = persistence_->position();
    CursorItems result = read(*persistence_, limit);
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

// --- memory
// ----------------------------------------------------------------------------------------------------------

void CheckpointManagerBase::closeIfDue(uint64_t coarseNowNs) {
    const std::lock_guard lock(queueLock_);
    if (!replica_ && shouldClose(coarseNowNs)) {
        openCheckpoint({next(highSeqno()), highSeqno()}, CheckpointType::Memory, coarseNowNs);
    }
}

size_t CheckpointManagerBase::expel() {
    std::vector<ItemPtr> expelled;
    const std::lock_guard lock(queueLock_);
    const auto lowest = std::min_element(cursors_.begin(), cursors_.end(), isBefore);
    if (lowest == cursors_.end()) {
        return 0;
    }
    const size_t bytes = (*lowest)->checkpoint()->expelBefore((*lowest)->position(), expelled);
    releaseMemory(bytes);
    return bytes;
}

void CheckpointManagerBase::clear(const CheckpointStart& start, uint64_t coarseNowNs) {
    ExtractedCheckpoints dropped;
    const std::lock_guard lock(queueLock_);
    assert(!backupActive_);
    for (const CursorPtr& cursor : cursors_) {
        cursor->moveTo(nullptr, 0);
    }
    cursors_.clear();
    const CheckpointId id = next(list_.newest()->id());
    const SnapshotRange empty{next(start.highSeqno), start.highSeqno};
    auto fresh = std::make_unique<Checkpoint>(id, empty, CheckpointType::Memory, coarseNowNs);
    addMemory(fresh->memory());
    Checkpoint* open = fresh.get();
    list_.newest()->close();
    list_.append(std::move(fresh));
    dropped.adopt(list_.cutBefore(open), this);
    lastSnapshot_ = start.snapshot;
    maxCas_ = std::max(maxCas_, start.maxCas.get());
    replica_ = false;
    publishHigh(start.highSeqno);
    setUnpersisted(0);
    if (persistence_ != nullptr) {
        cursors_.push_back(persistence_);
        persistence_->moveTo(open, open->beginPosition());
    }
}

CheckpointStats CheckpointManagerBase::stats() const {
    const std::lock_guard lock(queueLock_);
    const Checkpoint& open = *list_.newest();
    return {.openId = open.id(),
            .highSeqno = highSeqno(),
            .openSnapshot = open.snapshot(),
            .maxCas = Cas{maxCas_},
            .checkpoints = list_.size(),
            .openItems = open.liveItems(),
            .cursors = cursors_.size(),
            .memory = memory(),
            .unpersisted = unpersisted()};
}

}  // namespace kv
