#include "bucket/persistent_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "logging/log.h"

namespace kv {

namespace {

/// Attempts of persistAll() to store what a store refused.
constexpr int kFinalAttempts = 3;

}  // namespace

PersistentBucket::PersistentBucket(const BucketConfig& config, const PersistenceConfig& persistence,
                                   Executor& executor, const StoreFactory& factory)
    : Bucket(BucketType::Persistent, config),
      executor_(executor),
      syncInterval_(persistence.syncInterval),
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
        const std::string path = dataDir_.shardPath(number);
        shard.store =
                factory ? factory(path) : std::make_unique<RocksStore>(path, persistence.rocks);
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
    if (shard.flusher->notify(vbid) && shard.task != nullptr) {
        executor_.wake(shard.task);
    }
}

void PersistentBucket::onMutation(VBucket& vbucket, Seqno /*seqno*/) noexcept {
    queueFlush(vbucket.id());
}

OpStatus PersistentBucket::findTombstone(Vbid vbid, std::string_view key,
                                         std::optional<ItemMeta>& tombstone) {
    try {
        storeOf(vbid).get(vbid, key, [&](const StoredDoc& doc) { tombstone = doc.meta; });
        return OpStatus::Ok;
    } catch (const StoreError&) {
        return OpStatus::TmpFail;  // an unknown version must not win over a known one
    }
}

void PersistentBucket::onStateChange(VBucket& vbucket, const OpTime& /*now*/) {
    targets_[vbucket.id().get()]->stateChanged();
    queueFlush(vbucket.id());
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
    bool stored = true;
    for (Shard& shard : shards_) {
        bool done = false;
        for (int attempt = 0; attempt < kFinalAttempts && !done; ++attempt) {
            done = shard.flusher->flushAll(
                    [this](Vbid vbid) -> FlushTarget& { return targetOf(vbid); });
        }
        stored = stored && done;
    }
    // Synced first: after a power cut the mark must not say more than the stores have, or seqnos
    // that are gone would be given again in the same history.
    if (stored && itemsToPersist() == 0 && statesToPersist() == 0 && syncStores()) {
        dataDir_.markClean();
        return true;
    }
    return false;
}

bool PersistentBucket::syncStores() {
    return std::all_of(shards_.begin(), shards_.end(),
                       [](const Shard& shard) { return shard.store->sync(); });
}

bool PersistentBucket::discardAbove(VBucket& vbucket, Seqno seqno, const PersistedVbState& left,
                                    const OpTime& now, const FlushLock& /*lock*/) {
    const Vbid vbid = vbucket.id();
    VbFlushTarget& target = *targets_[vbid.get()];
    VBucket::EmptyRoom room = vbucket.makeEmptyRoom();
    KVStore& store = storeOf(vbid);
    bool begun = false;
    try {
        // What is not stored yet goes in any case: the memory has no older versions of its
        // documents.
        if (store.rollback(vbid, seqno)) {
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
        // The store cannot be read, or there is no memory: it comes from the source again.
        const NonBucketGuard nobody;
        log::warn("vb {}: rolled back to nothing: {}", vbid.get(), error.what());
    }
    PersistedVbState state = left;
    state.maxDeletedRev = vbucket.maxDeletedRev();
    if (!store.delVBucket(vbid, state)) {
        if (!begun) {
            return false;
        }
        // The store has given something up, so the vBucket cannot stay as it was.
        target.forgetBeforeFlush();
    }
    vbucket.clear({}, now, std::move(room));
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

// --- warm-up

WarmupResult PersistentBucket::warmUp() {
    const auto begin = std::chrono::steady_clock::now();
    const bool clean = dataDir_.takeCleanMark() || dataDir_.isNew();
    std::vector<WarmupResult> results(shards_.size());
    std::vector<std::exception_ptr> errors(shards_.size());
    std::vector<std::thread> loaders;
    for (size_t number = 0; number < shards_.size(); ++number) {
        loaders.emplace_back([this, number, clean, &results, &errors] {
            const BucketMemoryGuard guard(memory());
            try {
                loadShard(shards_[number], clean, results[number]);
            } catch (...) {
                errors[number] = std::current_exception();
            }
        });
    }
    for (std::thread& loader : loaders) {
        loader.join();
    }
    WarmupResult sum;
    for (size_t number = 0; number < shards_.size(); ++number) {
        if (errors[number] != nullptr) {
            std::rethrow_exception(errors[number]);
        }
        sum.vbuckets += results[number].vbuckets;
        sum.documents += results[number].documents;
        sum.tombstones += results[number].tombstones;
    }
    sum.clean = clean;
    sum.duration = std::chrono::steady_clock::now() - begin;
    return sum;
}

void PersistentBucket::loadShard(Shard& shard, bool clean, WarmupResult& result) {
    for (const Vbid vbid : shard.store->listPersistedVbuckets()) {
        if (!hasVBucket(vbid) || &shardOf(vbid) != &shard) {
            throw StoreError("vBucket " + std::to_string(vbid.get()) +
                             " is stored in a shard that is not its own");
        }
        loadVBucket(*shard.store, vbid, clean, result);
    }
}

void PersistentBucket::loadVBucket(KVStore& store, Vbid vbid, bool clean, WarmupResult& result) {
    const auto scan = store.openSeqnoScan(vbid, Seqno{1}, Seqno{~uint64_t{0}});
    if (scan == nullptr) {
        throw StoreError("vBucket " + std::to_string(vbid.get()) + " has no stored state");
    }
    const PersistedVbState& state = scan->state();
    if (state.state < static_cast<uint8_t>(VbState::Active) ||
        state.state > static_cast<uint8_t>(VbState::Dead)) {
        throw StoreError("vBucket " + std::to_string(vbid.get()) + " has an unknown stored state");
    }
    VBucket& target = vbucket(vbid);
    loadDocuments(*scan, target, result);
    // Becoming active begins a new history, which is right after a crash only.
    const auto stored = static_cast<VbState>(state.state);
    target.failoverLog().replace(state.failoverLog);
    target.setState(stored);
    if (clean) {
        target.failoverLog().replace(state.failoverLog);
    }
    targets_[vbid.get()]->assumeStored(state);
    if (!clean && stored == VbState::Active) {
        targets_[vbid.get()]->stateChanged();
        queueFlush(vbid);
    }
    ++result.vbuckets;
}

void PersistentBucket::loadDocuments(SeqnoScan& scan, VBucket& target, WarmupResult& result) {
    const PersistedVbState& state = scan.state();
    target.clear({.highSeqno = state.highSeqno, .snapshot = state.snapshot, .maxCas = state.maxCas},
                 OpTime{});
    for (StoredDoc doc; scan.next(doc);) {
        target.loadStored(doc.key, doc.op, doc.meta,
                          isDeletion(doc.op) ? BlobPtr{} : Blob::create(doc.value));
        if (isDeletion(doc.op)) {
            // As after a flush: the vBucket learns the revision and lets the tombstone go.
            target.onPersisted(*Item::create(target.id(), doc.op, doc.key, doc.meta, {}));
            targets_[target.id().get()]->noteTombstone(doc.meta.exptime);
            ++result.tombstones;
        } else {
            ++result.documents;
        }
        if (memory().estimate() > memory().quota()) {
            throw StoreError(fmt::format(
                    "the documents in {} need more memory than the quota of {} bytes: start with "
                    "a larger one",
                    dataDir_.path().string(), memory().quota()));
        }
    }
    target.notePurged(state.purgedSeqno);
    target.noteDeletedRev(state.maxDeletedRev);
}

}  // namespace kv
