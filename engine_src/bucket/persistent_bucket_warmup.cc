// The warm-up of a PersistentBucket, and its comparison with the record of the last clean stop.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "bucket/persistent_bucket.h"
#include "logging/log.h"
#include "options/mutation.h"

namespace kv {

namespace {

/// Documents that are loaded before the hash table grows: the task that resizes tables does not run
/// yet, and in a table that stays small, each document takes longer than the one before.
constexpr size_t kLoadedPerResize = 1024;

uint64_t liveIn(const VBucket& vbucket) {
    return static_cast<uint64_t>(vbucket.hashTable().sums().items);
}

}  // namespace

std::vector<StoredVBucket> PersistentBucket::storedVBuckets() const {
    std::vector<StoredVBucket> stored;
    for (const Shard& shard : shards_) {
        for (const Vbid vbid : shard.store->listPersistedVbuckets()) {
            const VBucket& stopped = vbucket(vbid);
            stored.push_back({.vbid = vbid,
                              .state = static_cast<uint8_t>(stopped.state()),
                              .uuid = stopped.failoverLog().uuid(),
                              .highSeqno = persistedSeqno(vbid),
                              .documents = liveIn(stopped)});
        }
    }
    return stored;
}

WarmupResult PersistentBucket::warmUp() {
    const auto begin = std::chrono::steady_clock::now();
    const bool clean = (dataDir_.cleanMark().has_value() && !dataDir_.isCopy()) || dataDir_.isNew();
    std::vector<Loaded> loaded(shards_.size());
    std::vector<std::exception_ptr> errors(shards_.size());
    std::vector<std::thread> loaders;
    for (size_t number = 0; number < shards_.size(); ++number) {
        loaders.emplace_back([this, number, clean, &loaded, &errors] {
            const BucketMemoryGuard guard(memory());
            try {
                loadShard(shards_[number], clean, loaded[number]);
            } catch (...) {
                errors[number] = std::current_exception();
            }
        });
    }
    for (std::thread& loader : loaders) {
        loader.join();
    }
    WarmupResult sum;
    std::vector<StoredVBucket> found;
    for (size_t number = 0; number < shards_.size(); ++number) {
        if (errors[number] != nullptr) {
            rethrowWithAdvice(errors[number]);
        }
        found.insert(found.end(), loaded[number].vbuckets.begin(), loaded[number].vbuckets.end());
        sum.documents += loaded[number].sums.documents;
        sum.tombstones += loaded[number].sums.tombstones;
    }
    sum.vbuckets = found.size();
    if (dataDir_.cleanMark()) {
        checkLoaded(found, sum);
    }
    for (size_t number = 0; number < shards_.size(); ++number) {
        const KVStoreStats stats = shards_[number].store->stats();
        sum.cutOffBytes += stats.cutOffBytes;
        if (stats.hasGaps) {
            std::for_each(loaded[number].vbuckets.begin(), loaded[number].vbuckets.end(),
                          [this](StoredVBucket entry) {
                              // The mark knows it if the store has lost it.
                              entry.state = static_cast<uint8_t>(vbucket(entry.vbid).state());
                              beginWithoutHistory(entry);
                          });
        }
    }
    // Without the mark, nothing shows any more what is missing.
    if (sum.lostVBuckets != 0 && !syncStores()) {
        throw StoreError("cannot sync the new histories in " + dataDir_.path().string());
    }
    dataDir_.removeCleanMark();
    for (const Shard& shard : shards_) {
        if (shard.store->stats().hasGaps) {
            shard.store->forgetGaps();
        }
    }
    sum.clean = clean;
    sum.duration = std::chrono::steady_clock::now() - begin;
    return sum;
}

void PersistentBucket::rethrowWithAdvice(const std::exception_ptr& error) const {
    try {
        std::rethrow_exception(error);
    } catch (const DamageError& damage) {
        throw DamageError(std::string(damage.what()) + ". " + advice(CanGoOn::No));
    }
}

void PersistentBucket::checkLoaded(const std::vector<StoredVBucket>& found, WarmupResult& result) {
    std::string first;
    for (const StoredVBucket& left : *dataDir_.cleanMark()) {
        const auto match =
                std::find_if(found.begin(), found.end(),
                             [&](const StoredVBucket& entry) { return entry.vbid == left.vbid; });
        const StoredVBucket now = match != found.end() ? *match : StoredVBucket{};
        if (match != found.end() && now == left) {
            continue;
        }
        ++result.lostVBuckets;
        result.lostDocuments += left.documents - std::min(left.documents, now.documents);
        const std::string difference = fmt::format(
                "vBucket {}: {} documents up to seqno {}, but the last clean stop left {} up to {}",
                left.vbid.get(), now.documents, now.highSeqno.get(), left.documents,
                left.highSeqno.get());
        first = first.empty() ? difference : first;
        if (acceptLoss_) {
            log::error("{}: a new history begins", difference);
            beginWithoutHistory(left);
        }
    }
    if (result.lostVBuckets != 0 && !acceptLoss_) {
        throw StoreError(fmt::format(
                "{}: {} documents are gone, {} vBuckets are not as the last clean stop left them; "
                "{}. {}",
                dataDir_.path().string(), result.lostDocuments, result.lostVBuckets, first,
                advice(CanGoOn::Yes)));
    }
}

void PersistentBucket::beginWithoutHistory(const StoredVBucket& left) {
    // It is unknown what is missing, and it need not be what was stored last: a client or a replica
    // must start over, however little it had seen.
    const BucketMemoryGuard guard(memory());
    VBucket& target = vbucket(left.vbid);
    target.setState(static_cast<VbState>(left.state));
    target.failoverLog().replace({{target.failoverLog().prepare(), Seqno{0}}});
    if (!isStored(left.vbid)) {
        targets_[left.vbid.get()]->assumeStored({});
    }
    // At once: if this start fails later, the next one may not see that something is missing.
    const auto lock = targets_[left.vbid.get()]->lockForFlush();
    if (!storeOf(left.vbid).saveVbState(left.vbid, targets_[left.vbid.get()]->stateToPersist())) {
        throw StoreError(
                fmt::format("cannot store the new history of vBucket {}", left.vbid.get()));
    }
}

void PersistentBucket::loadShard(Shard& shard, bool clean, Loaded& loaded) {
    for (const Vbid vbid : shard.store->listPersistedVbuckets()) {
        if (!hasVBucket(vbid) || &shardOf(vbid) != &shard) {
            throw StoreError("vBucket " + std::to_string(vbid.get()) +
                             " is stored in the wrong shard");
        }
        const StoredVBucket found = loadVBucket(*shard.store, vbid, clean, loaded.sums);
        const NonBucketGuard nobody;
        loaded.vbuckets.push_back(found);
    }
}

StoredVBucket PersistentBucket::loadVBucket(KVStore& store, Vbid vbid, bool clean,
                                            WarmupResult& sums) {
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
    loadDocuments(*scan, target, sums);
    // Becoming active begins a new history, which is right only after a crash.
    const auto stored = static_cast<VbState>(state.state);
    target.failoverLog().replace(state.failoverLog);
    target.setState(stored);
    if (clean) {
        target.failoverLog().replace(state.failoverLog);
    }
    target.setRefusedHistory(state.refusedHistory);
    targets_[vbid.get()]->assumeStored(state);
    if (!clean && stored == VbState::Active) {
        targets_[vbid.get()]->stateChanged();
        queueFlush(vbid);
    }
    return {.vbid = vbid,
            .state = state.state,
            .uuid = state.failoverLog.empty() ? VbUuid{} : state.failoverLog.front().uuid,
            .highSeqno = state.highSeqno,
            .documents = liveIn(target)};
}

void PersistentBucket::loadDocuments(SeqnoScan& scan, VBucket& target, WarmupResult& result) {
    const PersistedVbState& state = scan.state();
    size_t loaded = 0;
    target.clear({.highSeqno = state.highSeqno, .snapshot = state.snapshot, .maxCas = state.maxCas},
                 OpTime{});
    for (StoredDoc doc; scan.next(doc);) {
        if (options::mutated(options::Mutation::WarmUpSkips, 10)) {
            continue;
        }
        target.loadStored(doc.key, doc.op, doc.meta,
                          isDeletion(doc.op) ? BlobPtr{} : Blob::create(doc.value));
        if (isDeletion(doc.op)) {
            // As after a flush: the vBucket learns the revision and drops the tombstone.
            target.onPersisted(*Item::create(target.id(), doc.op, doc.key, doc.meta, {}));
            targets_[target.id().get()]->noteTombstone(doc.meta.exptime);
            ++result.tombstones;
        } else {
            ++result.documents;
        }
        if (++loaded % kLoadedPerResize == 0) {
            target.hashTable().resizeIfNeeded();
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
