#include "checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "options/mutation.h"
#include "types/invariant.h"

namespace kv {

Cas CheckpointManager::nextCas(uint64_t nowNs) {
    maxCas_ = std::max(maxCas_ + 1, nowNs);
    return Cas{maxCas_};
}

QueueResult CheckpointManager::queueDirty(ItemPtr item, Seqno previous, GenerateSeqno generateSeqno,
                                          GenerateCas generateCas, uint64_t coarseNowNs) {
    ItemPtr replaced;  // freed after the lock is released
    const auto lock = log_.lockForMutation();
    const bool active = generateSeqno == GenerateSeqno::Yes;
    const bool kept = !log_.cursors().empty();
    const Seqno high = log_.highSeqno();
    if (active && (log_.isReplica() || (kept && log_.shouldClose(coarseNowNs)))) {
        log_.openNext(coarseNowNs);
    }
    log_.setReplica(!active);
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
    Checkpoint& open = log_.open();
    if (!kept) {
        open.extendSnapshot(std::max(open.snapshot().end, result.seqno));
        log_.publishHigh(result.seqno);
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
        log_.memory().release(open.forgetTombstone(item->key()));
    }
    const size_t memoryBefore = open.memory();
    assert(old == Checkpoint::kNowhere || !open.at(old) || open.at(old)->key() == item->key());
    open.append(std::move(item));
    log_.memory().add(open.memory() - memoryBefore);
    PersistencePlace& persistence = log_.persistence();
    if (old != Checkpoint::kNowhere && open.at(old)) {
        result.status = persistence.hasTaken(open, old) ? QueueStatus::PersistAgain
                                                        : QueueStatus::ExistingItem;
        const size_t withOld = open.memory();
        replaced = open.remove(old);
        if (open.wantsCompaction()) {
            log_.compactOpen();
        }
        log_.memory().release(withOld - open.memory());
    }
    if (persistence.cursor != nullptr && result.status != QueueStatus::ExistingItem) {
        persistence.setUnpersisted(persistence.unpersisted() + 1);
    }
    log_.publishHigh(result.seqno);
    return result;
}

std::optional<QueueResult> CheckpointManager::assignOnly(uint64_t coarseNowNs) {
    const auto lock = log_.lockForMutation();
    if (!log_.cursors().empty() && !options::mutated(options::Mutation::AckNotQueued)) {
        return std::nullopt;
    }
    const Seqno seqno = next(log_.highSeqno());
    if (log_.isReplica()) {
        log_.openNext(coarseNowNs);
        log_.setReplica(false);
    }
    log_.open().extendSnapshot(seqno);
    log_.publishHigh(seqno);
    return QueueResult{seqno, nextCas(coarseNowNs), QueueStatus::NewItem};
}

void CheckpointManager::noteTombstoneRemoved(std::string_view key, Seqno seqno) {
    const auto lock = log_.lock();
    Checkpoint& open = log_.open();
    if (!log_.cursors().empty() && seqno >= open.availableFrom() &&
        open.positionOf(seqno) != Checkpoint::kNowhere) {
        log_.memory().add(open.noteTombstone(key, seqno));
    }
}

void CheckpointManager::createSnapshot(SnapshotRange snapshot, CheckpointType type, bool extend,
                                       uint64_t coarseNowNs) {
    const auto lock = log_.lock();
    if (extend && log_.isReplica()) {
        log_.open().extendSnapshot(snapshot.end);
        return;
    }
    if (const SnapshotRange begun = log_.snapshotOfHigh(); log_.isPartial(begun)) {
        snapshot.start = begun.start;
    }
    log_.openCheckpoint(snapshot, type, coarseNowNs);
    log_.setReplica(true);
}

SnapshotRange CheckpointManager::currentSnapshot() const {
    const auto lock = log_.lock();
    return log_.snapshotOfHigh();
}

Seqno CheckpointManager::beginActive(uint64_t coarseNowNs, uint64_t casDistance) {
    const auto lock = log_.lock();
    const SnapshotRange received = log_.snapshotOfHigh();
    const bool partial = log_.isPartial(received);
    Checkpoint& receiving = log_.open();
    if (log_.isReplica()) {
        log_.openNext(coarseNowNs);
        log_.setReplica(false);
    }
    log_.cutSnapshots(receiving);
    if (options::mutated(options::Mutation::SeqnoReused) && log_.highSeqno() != Seqno{}) {
        log_.publishHigh(Seqno{log_.highSeqno().get() - 1});
    }
    maxCas_ += casDistance;
    const bool whole = !partial || options::mutated(options::Mutation::PartialCalledWhole);
    const Seqno begins = !whole && received.start != Seqno{} ? Seqno{received.start.get() - 1}
                                                             : log_.highSeqno();
    return options::mutated(options::Mutation::HistoryBeginsLate) ? next(begins) : begins;
}

std::unique_ptr<Checkpoint> CheckpointManager::makeEmptyCheckpoint() {
    return std::make_unique<Checkpoint>(CheckpointId{}, SnapshotRange{}, Seqno{},
                                        CheckpointType::Memory, 0);
}

ExtractedCheckpoints CheckpointManager::clear(const CheckpointStart& start, uint64_t coarseNowNs,
                                              std::unique_ptr<Checkpoint> fresh) {
    const auto lock = log_.lock();
    ExtractedCheckpoints dropped(log_.startOver(start, coarseNowNs, std::move(fresh)),
                                 log_.memory());
    maxCas_ = std::max(maxCas_, start.maxCas.get());
    return dropped;
}

CheckpointStats CheckpointManager::stats() const {
    const auto lock = log_.lock();
    const Checkpoint& open = log_.open();
    return {.openId = open.id(),
            .highSeqno = highSeqno(),
            .openSnapshot = open.snapshot(),
            .maxCas = Cas{maxCas_},
            .checkpoints = log_.checkpoints(),
            .openItems = open.liveItems(),
            .cursors = log_.cursors().size(),
            .memory = memory(),
            .unpersisted = unpersisted()};
}

}  // namespace kv
