#include "bucket/persistent_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "logging/log.h"
#include "options/mutation.h"
#include "persistence/rocks_store.h"

namespace kv {

namespace {

/// Attempts of persistAll() to store data that a store refused, before it pauses between them.
constexpr int kFinalAttempts = 3;
constexpr std::chrono::milliseconds kFinalPause{200};

bool tryUntil(std::chrono::steady_clock::time_point end, const std::function<bool()>& work) {
    for (int attempt = 1; !work(); ++attempt) {
        if (attempt >= kFinalAttempts) {
            if (std::chrono::steady_clock::now() >= end) {
                return false;
            }
            std::this_thread::sleep_for(kFinalPause);
        }
    }
    return true;
}

}  // namespace

PersistentBucket::PersistentBucket(const BucketConfig& config, const PersistenceConfig& persistence,
                                   Executor& executor, const StoreFactory& factory)
    : Bucket(BucketType::Persistent, config),
      executor_(executor),
      syncInterval_(persistence.syncInterval),
      stopPatience_(persistence.stopPatience),
      acceptLoss_(persistence.acceptLoss),
      dataDir_(persistence.dataDir, persistence.shards, config.vbuckets) {
    if (persistence.shards == 0) {
        throw std::invalid_argument("a persistent bucket needs at least one shard");
    }
    const BucketMemoryGuard guard(memory());
    targets_.reserve(vbucketCount());
    for (uint16_t id = 0; id < vbucketCount(); ++id) {
        targets_.push_back(std::make_unique<VbFlushTarget>(vbucket(Vbid{id})));
    }
    shards_.resize(persistence.shards);
    for (unsigned number = 0; number < persistence.shards; ++number) {
        const NonBucketGuard nobody;
        Shard& shard = shards_[number];
        shard.store = openStore(dataDir_.shardPath(number), persistence.rocks, factory);
        shard.flusher =
                std::make_unique<Flusher>(*shard.store, vbucketCount(), persistence.flusher);
        shard.task = executor_.schedule(
                "flusher_" + std::to_string(number), TaskPool::Writer, kNever, [this, &shard] {
                    const BucketMemoryGuard bound(memory());
                    return shard.flusher->run(executor_.now(), [this](Vbid vbid) -> FlushTarget& {
                        return targetOf(vbid);
                    });
                });
    }
    if (dataDir_.isNew()) {
        dataDir_.writeLayout();
    }
}

std::unique_ptr<KVStore> PersistentBucket::openStore(const std::string& path, RocksConfig config,
                                                     const StoreFactory& factory) const {
    if (factory) {
        return factory(path);
    }
    config.mayCreate = dataDir_.isNew();
    config.needsWholeLog = dataDir_.cleanMark().has_value() && !acceptLoss_;
    config.acceptLoss = acceptLoss_;
    try {
        auto store = std::make_unique<RocksStore>(path, config);
        if (dataDir_.isNew() && !store->listPersistedVbuckets().empty()) {
            throw DamageError(path + " has documents, but " + dataDir_.path().string() +
                              " has no layout.json");
        }
        return store;
    } catch (const DamageError& error) {
        throw DamageError(std::string(error.what()) + ". " + advice(CanGoOn::Yes));
    }
}

std::string PersistentBucket::advice(CanGoOn withAcceptLoss) const {
    return fmt::format(
            "Restore {} from a copy, or move it away and let the node follow one that has the "
            "data{}",
            dataDir_.path().string(),
            withAcceptLoss == CanGoOn::Yes && !acceptLoss_
                    ? ", or start with --accept-loss to keep what can be read"
                    : "");
}

PersistentBucket::~PersistentBucket() {
    stopFlushing();
    {
        const NonBucketGuard nobody;
        for (Shard& shard : shards_) {
            shard.task.reset();
            shard.flusher.reset();
            shard.store.reset();
        }
    }
    const BucketMemoryGuard guard(memory());
    shards_.clear();
    shards_.shrink_to_fit();
    targets_.clear();
    targets_.shrink_to_fit();
    destroyVBuckets();
}

// --- flushing

void PersistentBucket::queueFlush(Vbid vbid) noexcept {
    Shard& shard = shardOf(vbid);
    if (shard.flusher->notify(vbid) && shard.task != nullptr &&
        !options::mutated(options::Mutation::LostFlushWakeup, 20)) {
        executor_.wake(shard.task);
    }
}

void PersistentBucket::onMutation(VBucket& vbucket, Seqno /*seqno*/) noexcept {
    queueFlush(vbucket.id());
}

OpStatus PersistentBucket::findTombstone(Vbid vbid, std::string_view key, Disk disk,
                                         std::optional<ItemMeta>& tombstone) {
    try {
        const auto reads = disk == Disk::Wait ? KVStore::Reads::Disk : KVStore::Reads::MemoryOnly;
        const auto found = storeOf(vbid).look(vbid, key, reads,
                                              [&](const StoredDoc& doc) { tombstone = doc.meta; });
        return found == KVStore::Lookup::NotInMemory ? OpStatus::WouldBlock : OpStatus::Ok;
    } catch (const StoreError&) {
        return OpStatus::TmpFail;  // an unknown version must not win over a known one
    }
}

void PersistentBucket::onStateChange(VBucket& vbucket, const OpTime& /*now*/) {
    targets_[vbucket.id().get()]->stateChanged();
    queueFlush(vbucket.id());
}

bool PersistentBucket::storeState(Vbid vbid) {
    const BucketMemoryGuard guard(memory());
    return targets_[vbid.get()]->storeState(storeOf(vbid));
}

void PersistentBucket::startFlushing() {
    for (Shard& shard : shards_) {
        executor_.wake(shard.task);
    }
    if (syncInterval_ != TaskTime::zero()) {
        syncTask_ = executor_.schedule("store_sync", TaskPool::Writer, syncInterval_, [this] {
            if (!syncStores()) {
                const NonBucketGuard nobody;
                log::warn("the stores could not be synced: tried again");
            }
            return TaskResult::after(syncInterval_);
        });
    }
}

void PersistentBucket::stopFlushing() {
    if (syncTask_ != nullptr) {
        executor_.cancel(syncTask_);
    }
    for (Shard& shard : shards_) {
        if (shard.task != nullptr) {
            executor_.cancel(shard.task);
        }
    }
}

bool PersistentBucket::persistAll() {
    stopFlushing();
    const BucketMemoryGuard guard(memory());
    const auto end = std::chrono::steady_clock::now() + stopPatience_;
    bool stored = true;
    for (Shard& shard : shards_) {
        const auto flush = [&] {
            return shard.flusher->flushAll(
                    [this](Vbid vbid) -> FlushTarget& { return targetOf(vbid); });
        };
        stored = tryUntil(end, flush) && stored;
    }
    // Sync before marking: after a power cut the mark must not claim more than the stores have, or
    // lost seqnos would be assigned again in the same history.
    for (const Shard& shard : shards_) {
        if (!shard.store->emptyLog()) {
            const NonBucketGuard nobody;
            log::warn(
                    "a store keeps its documents in its log: they could not be written elsewhere");
        }
    }
    // A store whose sync has failed reports that until its memory is in other files, so it may be
    // asked again.
    if (!stored || itemsToPersist() != 0 || statesToPersist() != 0 ||
        !tryUntil(end, [this] { return syncStores(); })) {
        return false;
    }
    try {
        dataDir_.markClean(storedVBuckets());
    } catch (const StoreError& error) {
        const NonBucketGuard nobody;
        log::error("the stop is not clean: {}", error.what());
        return false;
    }
    return true;
}

bool PersistentBucket::syncStores() {
    bool synced = true;
    for (const Shard& shard : shards_) {
        synced = shard.store->sync() && synced;  // even if another store failed
    }
    return synced;
}

bool PersistentBucket::discardAbove(VBucket& vbucket, Seqno seqno, const PersistedVbState& left,
                                    const OpTime& now, const FlushLock& /*lock*/) {
    const Vbid vbid = vbucket.id();
    VbFlushTarget& target = *targets_[vbid.get()];
    VBucket::ClearMemory memory = vbucket.allocateClearMemory();
    KVStore& store = storeOf(vbid);
    bool begun = target.mustForget();
    try {
        // Data that is not stored yet is lost in any case: the memory has no older versions of its
        // documents.
        if (!begun && store.rollback(vbid, seqno)) {
            begun = true;
            const auto scan = store.openSeqnoScan(vbid, Seqno{1}, Seqno{~uint64_t{0}});
            if (scan != nullptr) {
                WarmupResult loaded;
                loadDocuments(*scan, vbucket, loaded);
                target.assumeStored(scan->state());
                return true;
            }
        }
    } catch (const std::exception& error) {
        // The store cannot be read, or memory is short: the data comes from the source again.
        const NonBucketGuard nobody;
        log::warn("vb {}: rolled back to nothing: {}", vbid.get(), error.what());
    }
    PersistedVbState state = left;
    state.maxDeletedRev = vbucket.maxDeletedRev();
    const bool forgotten = store.delVBucket(vbid, state);
    if (!forgotten && !begun) {
        return false;
    }
    // If the store has discarded something, the vBucket cannot stay as it was.
    target.setMustForget(!forgotten);
    vbucket.clear({}, now, std::move(memory));
    target.assumeStored({});
    return true;
}

size_t PersistentBucket::purgeTombstonesOf(Vbid vbid, const OpTime& now) {
    const BucketMemoryGuard guard(memory());
    const uint32_t until = now.seconds - std::min(now.seconds, config().persistentPurgeAgeS);
    VbFlushTarget& target = *targets_[vbid.get()];
    if (target.oldestTombstone() > until) {
        return 0;
    }
    try {
        return target.purgeStored(storeOf(vbid), until);
    } catch (const StoreError& error) {
        const NonBucketGuard nobody;
        log::warn("vb {}: purge of tombstones: {}", vbid.get(), error.what());
        return 0;
    }
}

size_t PersistentBucket::itemsToPersist() const {
    size_t items = 0;
    for (const auto& target : targets_) {
        items += target->vbucket().checkpoints().unpersisted();
    }
    return items;
}

size_t PersistentBucket::statesToPersist() const {
    return static_cast<size_t>(
            std::count_if(targets_.begin(), targets_.end(),
                          [](const auto& target) { return !target->isStateStored(); }));
}

KVStore::FileBytes PersistentBucket::storedBytes() const {
    KVStore::FileBytes sum;
    for (const Shard& shard : shards_) {
        const auto bytes = shard.store->fileBytes();
        sum.current += bytes.current;
        sum.replaced += bytes.replaced;
    }
    return sum;
}

PersistenceStats PersistentBucket::persistenceStats() const {
    PersistenceStats sum;
    uint64_t duplicates = 0;
    for (const Shard& shard : shards_) {
        const FlusherStats& stats = shard.flusher->stats();
        sum.totalPersisted += stats.persisted.load(std::memory_order_relaxed);
        sum.inserts += stats.inserts.load(std::memory_order_relaxed);
        sum.updates += stats.updates.load(std::memory_order_relaxed);
        sum.deletes += stats.deletes.load(std::memory_order_relaxed);
        sum.flushes += stats.flushes.load(std::memory_order_relaxed);
        sum.failedFlushes += stats.failedFlushes.load(std::memory_order_relaxed);
        sum.failedItems += stats.failedItems.load(std::memory_order_relaxed);
        duplicates += stats.duplicates.load(std::memory_order_relaxed);
        const KVStoreStats store = shard.store->stats();
        sum.store.commits += store.commits;
        sum.store.failedCommits += store.failedCommits;
        sum.store.sets += store.sets;
        sum.store.deletes += store.deletes;
        sum.store.bytesWritten += store.bytesWritten;
        sum.store.syncs += store.syncs;
        sum.store.memtableBytes += store.memtableBytes;
        sum.store.blockCacheBytes += store.blockCacheBytes;
        sum.store.tableReaderBytes += store.tableReaderBytes;
        sum.store.diskBytes += store.diskBytes;
    }
    sum.totalEnqueued = sum.totalPersisted + duplicates + itemsToPersist();
    return sum;
}

}  // namespace kv
