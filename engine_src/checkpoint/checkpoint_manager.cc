#include "checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "types/invariant.h"

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
        before->reuse(snapshot, next(highSeqno()), type);
        before->startClock(nowNs);
        for (const CursorPtr& cursor : cursors_) {
            if (cursor->checkpoint() == before) {
                cursor->moveTo(before, before->beginPosition());
            }
        }
        return;
    }
    const CheckpointId id = before != nullptr ? next(before->id()) : CheckpointId{1};
    auto checkpoint = std::make_unique<Checkpoint>(id, snapshot, next(highSeqno()), type, nowNs);
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
    invariant(item->seqno() > high, "seqnos ascend");
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

    const bool noted = previous == Seqno{};
    if (noted) {
        previous = open.tombstone(item->key());
    }
    const size_t old =
            previous >= open.availableFrom() ? open.positionOf(previous) : Checkpoint::kNowhere;
    if (!open.hasEntries()) {
        open.startClock(coarseNowNs);
    }
    open.reserveEntry();
    if (noted && previous != Seqno{}) {
        open.forgetTombstone(item->key());
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
    if (const SnapshotRange begun = snapshotOfHigh(); isPartial(begun)) {
        snapshot.start = begun.start;
    }
    openCheckpoint(snapshot, type, coarseNowNs);
    replica_ = true;
}

Seqno CheckpointManagerBase::beginActive(uint64_t coarseNowNs) {
    const std::lock_guard lock(queueLock_);
    const Seqno high = highSeqno();
    const SnapshotRange received = snapshotOfHigh();
    const bool partial = isPartial(received);
    if (replica_) {
        list_.newest()->cutSnapshot(high);
        openCheckpoint({next(high), high}, CheckpointType::Memory, coarseNowNs);
        replica_ = false;
    }
    lastSnapshot_.end = std::min(lastSnapshot_.end, high);
    return partial && received.start != Seqno{} ? Seqno{received.start.get() - 1} : high;
}

SnapshotRange CheckpointManagerBase::snapshotOfHigh() const {
    const SnapshotRange open = list_.newest()->snapshot();
    return highSeqno() >= open.start ? open : lastSnapshot_;
}

void CheckpointManagerBase::compactOpen() {
    Checkpoint& open = *list_.newest();
    std::vector<size_t*> positions;
    try {
        positions.reserve(cursors_.size());
    } catch (const std::bad_alloc&) {
        return;  // the mutation is in the log already; the next one tries again
    }
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

Cas CheckpointManagerBase::newCas(uint64_t coarseNowNs) {
    const std::lock_guard lock(queueLock_);
    return nextCas(coarseNowNs);
}

SnapshotRange CheckpointManagerBase::currentSnapshot() const {
    const std::lock_guard lock(queueLock_);
    return snapshotOfHigh();
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
    invariant(!backupActive_, "no vBucket is cleared while it is flushed");
    for (const CursorPtr& cursor : cursors_) {
        cursor->moveTo(nullptr, 0);
    }
    cursors_.clear();
    const CheckpointId id = next(list_.newest()->id());
    const SnapshotRange empty{next(start.highSeqno), start.highSeqno};
    auto fresh = std::make_unique<Checkpoint>(id, empty, empty.start, CheckpointType::Memory,
                                              coarseNowNs);
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
