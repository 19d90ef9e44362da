#include "bucket/vbucket.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "bucket/random_bits.h"
#include "options/mutation.h"

namespace kv {

/// The members by cache line.
struct VBucket::Layout {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // it is defined for gcc and clang
    static_assert(offsetof(VBucket, checkpoints_) >=
                          offsetof(VBucket, sequence_) + sizeof(sequence_) + 64,
                  "the log's lock is a line away from what every operation reads");
    static_assert(offsetof(VBucket, state_) < offsetof(VBucket, sequence_));
#pragma GCC diagnostic pop
};

VBucket::VBucket(Vbid vbid, BucketType type, const BucketConfig& config, MutationSink& sink)
    : vbid_(vbid),
      persistent_(type == BucketType::Persistent),
      config_(config),
      sink_(sink),
      table_({.size = config.htSize,
              .locks = config.htLocks,
              .ordered = type == BucketType::Ephemeral ? Ordered::Yes : Ordered::No}),
      checkpoints_(vbid, config.checkpoint) {
    if (persistent_) {
        checkpoints_.persistence().registerCursor();
    } else {
        sequence_ = std::make_unique<SequenceList>();
    }
    emptyCheckpointMemory_ = checkpoints_.memory();
}

VBucket::~VBucket() {
    if (sequence_ != nullptr) {
        // The list owns its stale versions; the hash table is about to free the rest.
        sequence_->clear(sequence_->lock());
    }
}

void VBucket::setState(VbState state, const std::function<void()>& changed) {
    const auto guard = table_.lockAll();
    if (state == state_.load(std::memory_order_relaxed)) {
        return;  // the holder of a key's lock keeps it
    }
    // The history comes first: the flusher that sees the vBucket active and stores it must see its
    // history as well.
    if (state == VbState::Active) {
        const VbUuid uuid = failoverLog_.prepare();  // before the rest of a snapshot is given up
        // Clients may know CAS of mutations that were lost, and the clock may be behind them. With
        // a distance of up to 4 s, the same CAS is assigned to the same key again once in 2^32
        // times.
        const uint64_t casDistance = randomBits() >> 32;
        failoverLog_.begin(
                options::mutated(options::Mutation::HistoryKept) && failoverLog_.uuid() != VbUuid{}
                        ? failoverLog_.uuid()
                        : uuid,
                checkpoints_.beginActive(OpTime::now().nanos, casDistance));
        term_.fetch_add(1, std::memory_order_release);
        setRefusedHistory({});
        // The announcement of a snapshot whose rest does not come does not apply to the new
        // history.
        purgedSeqno_.store(std::min(purgedSeqno_.load(std::memory_order_relaxed),
                                    checkpoints_.highSeqno().get()),
                           std::memory_order_release);
    }
    state_.store(state, std::memory_order_release);
    keyLocks_.clear();
    // After the new state: BucketProducer::open() adds a stream first and then looks at the state.
    changed();
}

VBucket::ClearMemory VBucket::allocateClearMemory() const {
    return {table_.makeEmptyLines(), CheckpointManager::makeEmptyCheckpoint()};
}

void VBucket::clear(const CheckpointStart& start, const OpTime& now, ClearMemory memory) {
    // Freed after the locks are released: with a million documents that takes long, and front-end
    // threads need a lock to see that the documents are gone.
    HashTable::Contents documents;
    std::optional<ExtractedCheckpoints> log;
    // List and table at once: a purge in between would unlink a document from a list that has
    // forgotten it, and leave the list pointing at memory that the table frees.
    const auto guard = table_.lockAll();
    documents = table_.clear(guard, std::move(memory.lines));
    if (sequence_ != nullptr) {
        sequence_->clear(sequence_->lock());
    }
    keyLocks_.clear();
    purgedSeqno_.store(0, std::memory_order_release);
    setRefusedHistory({});
    log.emplace(checkpoints_.clear(start, now.nanos, std::move(memory.checkpoint)));
    clears_.fetch_add(1, std::memory_order_release);
    if (!options::mutated(options::Mutation::TermKept)) {
        term_.fetch_add(1, std::memory_order_release);
    }
    drops_.fetch_add(1, std::memory_order_release);
}

size_t VBucket::checkpointMemory() const {
    const size_t bytes = checkpoints_.memory();
    return bytes > emptyCheckpointMemory_ ? bytes - emptyCheckpointMemory_ : 0;
}

QueueResult VBucket::queue(std::string_view key, ItemOp op, const ItemMeta& meta,
                           const BlobPtr& value, Seqno previous, const OpTime& now) {
    if (!persistent_ || options::mutated(options::Mutation::AckNotQueued, 100)) {
        // Nobody follows this vBucket, so a seqno and a CAS are enough.
        if (const auto assigned = checkpoints_.assignOnly(now.nanos)) {
            return *assigned;
        }
    }
    return checkpoints_.queueDirty(Item::create(vbid_, op, key, meta, value), previous,
                                   GenerateSeqno::Yes, GenerateCas::Yes, now.nanos);
}

VBucket::Room VBucket::makeRoom(const Guard& guard, const StoredValue* present,
                                std::string_view key) {
    Room room;
    if (sequence_ != nullptr) {
        room.listGuard = sequence_->lock();
    }
    if (present == nullptr) {
        room.fresh = table_.make(key);
        table_.reserve(guard);
    } else if (sequence_ != nullptr && sequence_->mustKeep(room.listGuard, *present)) {
        room.fresh = table_.make(key);
        room.stale = sequence_->reserveStaleSlot(room.listGuard);
    }
    return room;
}

void VBucket::put(const Guard& guard, StoredValue* present, Room& room, ItemOp op,
                  const ItemMeta& meta, BlobPtr value) noexcept {
    // Always inline: whether GCC calls it depends on code elsewhere in the file, and a call costs
    // 4 % of throughput.
    const auto fill = [&](StoredValue & target) __attribute__((always_inline)) {
        if (kv::isDeletion(op)) {
            target.setDeleted(meta, op == ItemOp::Expiration);
        } else {
            target.setDocument(meta, std::move(value));
        }
        target.setDirty(persistent_);
    };
    if (room.fresh == nullptr) {
        table_.update(guard, *present, fill);
        if (sequence_ != nullptr) {
            sequence_->moveToEnd(room.listGuard, *present);
        }
        return;
    }
    fill(*room.fresh);
    StoredValue& added = *room.fresh;
    if (present != nullptr) {
        // A reader has yet to see the present version: it stays in the list, and the new one takes
        // its place in the table.
        StoredValuePtr old = table_.replace(guard, *present, std::move(room.fresh));
        sequence_->keepStale(room.listGuard, std::move(old), meta.seqno, std::move(room.stale));
    } else {
        table_.insert(guard, std::move(room.fresh));
    }
    if (sequence_ != nullptr) {
        sequence_->append(room.listGuard, added);
    }
}

QueueResult VBucket::commit(const Guard& guard, StoredValue* present, std::string_view key,
                            Change change, Notice& notice, const OpTime& now) {
    ItemMeta meta{.flags = change.flags, .exptime = change.exptime, .datatype = change.datatype};
    meta.revSeqno = 1 + (present != nullptr ? present->revSeqno()
                                            : maxDeletedRev_.load(std::memory_order_relaxed));
    const Seqno previous = present != nullptr ? present->seqno() : Seqno{};
    Room room = makeRoom(guard, present, key);
    const QueueResult queued = queue(key, change.op, meta, change.value, previous, now);
    meta.seqno = queued.seqno;
    meta.cas = present != nullptr && options::mutated(options::Mutation::CasKept, 3)
                       ? present->cas()
                       : queued.cas;
    if (present != nullptr) {
        openLock(*present);
    }
    put(guard, present, room, change.op, meta, std::move(change.value));
    notice.queued(queued.seqno);
    return queued;
}

OpStatus VBucket::beginReplicated(uint64_t term, const SnapshotRange& snapshot, CheckpointType type,
                                  const OpTime& now, Seqno purged) {
    // Any line: the state cannot change under any of their locks.
    const Guard guard = table_.lock({});
    if (!follows(term)) {
        return OpStatus::NotMyVbucket;
    }
    checkpoints_.createSnapshot(snapshot, type, false, now.nanos);
    // At once, not only at that seqno: a reader that starts in the middle of the snapshot has
    // missed them as well.
    notePurged(purged);
    return OpStatus::Ok;
}

OpStatus VBucket::applyReplicated(uint64_t term, std::string_view key, ItemOp op,
                                  const ItemMeta& meta, BlobPtr value, const OpTime& now) {
    Notice notice(*this);
    const Guard guard = table_.lock(key);
    if (!follows(term)) {
        return OpStatus::NotMyVbucket;
    }
    StoredValue* present = table_.find(guard, key);
    const Seqno previous = present != nullptr ? present->seqno() : Seqno{};
    Room room = makeRoom(guard, present, key);
    checkpoints_.queueDirty(Item::create(vbid_, op, key, meta, value), previous, GenerateSeqno::No,
                            GenerateCas::No, now.nanos);
    if (!kv::isDeletion(op) || !options::mutated(options::Mutation::DeletionNotApplied, 3)) {
        put(guard, present, room, op, meta, std::move(value));
    }
    notice.queued(meta.seqno);
    return OpStatus::Ok;
}

namespace {

void raise(std::atomic<uint64_t>& highest, uint64_t value) {
    uint64_t seen = highest.load(std::memory_order_relaxed);
    while (value > seen && !highest.compare_exchange_weak(seen, value)) {
    }
}

}  // namespace

void VBucket::noteDeletedRev(uint64_t rev) {
    raise(maxDeletedRev_, rev);
}

void VBucket::notePurged(Seqno seqno) {
    raise(purgedSeqno_, seqno.get());
}

size_t VBucket::expirePass(const OpTime& now) {
    keyLocks_.removeExpired(now.steady);
    if (!isActive() || table_.sums().expiring <= 0) {
        return 0;
    }
    size_t expired = 0;
    Notice notice(*this);
    table_.visit({}, [&](const Guard& guard, StoredValue& value) {
        if (isActive() && value.isExpired(now.seconds)) {
            expire(guard, value, notice, now);
            ++expired;
        }
        return true;
    });
    return expired;
}

size_t VBucket::removeAll(const OpTime& now) {
    if (!isActive()) {
        return 0;  // and waits for no thread that clears it
    }
    size_t removed = 0;
    Notice notice(*this);
    table_.visit({}, [&](const Guard& guard, StoredValue& value) {
        if (!isActive()) {
            return false;
        }
        if (!value.isDeleted()) {
            commit(guard, &value, value.key(),
                   {.op = ItemOp::Deletion, .flags = value.flags(), .exptime = now.seconds}, notice,
                   now);
            ++removed;
        }
        return true;
    });
    return removed;
}

size_t VBucket::purgeTombstones(uint32_t ageSeconds, const OpTime& now) {
    if (sequence_ == nullptr || table_.sums().tombstones <= 0) {
        return 0;
    }
    size_t purged = 0;
    table_.visit({}, [&](const Guard& guard, StoredValue& value) {
        if (value.isDeleted() && uint64_t{value.exptime()} + ageSeconds <= now.seconds) {
            const auto listGuard = sequence_->lock();
            if (!sequence_->isCovered(listGuard, value)) {
                noteDeletedRev(value.revSeqno());
                notePurged(value.seqno());
                checkpoints_.noteTombstoneRemoved(value.key(),
                                                  value.seqno());  // memory may be short here
                sequence_->unlink(listGuard, value);
                const StoredValuePtr doomed = table_.remove(guard, value);
                ++purged;
            }
        }
        return true;
    });
    return purged;
}

void VBucket::loadStored(std::string_view key, ItemOp op, const ItemMeta& meta, BlobPtr value) {
    const Guard guard = table_.lock(key);
    const auto fill = [&](StoredValue& target) {
        if (kv::isDeletion(op)) {
            target.setDeleted(meta, op == ItemOp::Expiration);
        } else {
            target.setDocument(meta, std::move(value));
        }
    };
    if (StoredValue* present = table_.find(guard, key)) {
        if (present->seqno() < meta.seqno) {
            table_.update(guard, *present, fill);
        }
        return;
    }
    StoredValuePtr fresh = table_.make(key);
    fill(*fresh);
    table_.insert(guard, std::move(fresh));
}

void VBucket::onPersisted(const Item& item) {
    const Guard guard = table_.lock(item.key());
    StoredValue* value = table_.find(guard, item.key());
    // By seqno, not by CAS: a newer version keeps the document dirty.
    if (value == nullptr || value->seqno() != item.seqno()) {
        return;
    }
    value->setDirty(false);
    if (!value->isDeleted()) {
        return;
    }
    noteDeletedRev(value->revSeqno());
    checkpoints_.noteTombstoneRemoved(value->key(), value->seqno());
    drops_.fetch_add(1, std::memory_order_release);
    const StoredValuePtr doomed = table_.remove(guard, *value);
}

}  // namespace kv
