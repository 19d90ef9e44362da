#include "bucket/vb_flush_target.h"

#include <utility>

namespace kv {

bool VbFlushTarget::prepare(KVStore& store) {
    forgetFirst_ = forgetFirst_ && !store.delVBucket(vbid(), stateToPersist());
    return !forgetFirst_;
}

FlushBatch VbFlushTarget::takeItemsToPersist(size_t limit, size_t limitBytes) {
    CursorItems read = vbucket_.checkpoints().persistence().takeItemsToPersist(limit, limitBytes);
    FlushBatch batch;
    batch.items = std::move(read.items);
    batch.more = read.more;
    if (!read.ranges.empty()) {
        batch.snapshot = read.ranges.back().snapshot;
    }
    return batch;
}

PersistedVbState VbFlushTarget::stateToPersist() {
    PersistedVbState state = stored_;
    state.state = static_cast<uint8_t>(vbucket_.state());
    state.failoverLog = vbucket_.failoverLog().entries();
    state.purgedSeqno = vbucket_.purgedSeqno();
    state.maxDeletedRev = vbucket_.maxDeletedRev();
    state.refusedHistory = vbucket_.refusedHistory();
    if (vbucket_.state() == VbState::Active && state.highSeqno == vbucket_.highSeqno()) {
        // The rest of a snapshot that was announced while this was a replica will not come. (Data
        // that is here and not stored yet will be stored: without it, the stored data is not
        // consistent.)
        state.snapshot.end = std::min(state.snapshot.end, state.highSeqno);
    }
    return state;
}

void VbFlushTarget::assumeStored(const PersistedVbState& state) {
    stored_ = state;
    persistedSeqno_.store(state.highSeqno.get(), std::memory_order_release);
    isStored_.store(true, std::memory_order_release);
    if (state.highSeqno > heldBack_.seqno) {
        noteTombstone(heldBack_.deletedAt);
        heldBack_ = {};
    }
}

bool VbFlushTarget::storeState(KVStore& store) {
    const auto lock = lockForFlush();
    if (!takeStateChange()) {
        return true;
    }
    if (!prepare(store) || !store.saveVbState(vbid(), stateToPersist())) {
        return false;
    }
    stateChangeStored();
    return true;
}

size_t VbFlushTarget::purgeStored(KVStore& store, uint32_t until) {
    constexpr size_t kBatch = 10'000;
    const auto lock = lockForFlush();
    if (forgetFirst_) {
        return 0;
    }
    const auto scan = store.openSeqnoScan(vbid(), Seqno{1}, Seqno{~uint64_t{0}});
    if (scan == nullptr) {
        return 0;
    }
    std::vector<std::pair<std::string, Seqno>> doomed;
    size_t purged = 0;
    uint32_t oldest = UINT32_MAX;
    const auto remove = [&] {
        // Noted before the removal, so that a client learns in time where it may resume.
        vbucket_.notePurged(doomed.back().second);
        const PersistedVbState state = stateToPersist();
        if (!store.removeTombstones(vbid(), doomed, state)) {
            return false;
        }
        stored_ = state;
        purged += doomed.size();
        doomed.clear();
        return true;
    };
    for (StoredDoc doc; scan->next(doc);) {
        if (!isDeletion(doc.op)) {
            continue;
        }
        if (doc.meta.exptime > until) {
            oldest = std::min(oldest, doc.meta.exptime);
            continue;
        }
        if (doc.meta.seqno == scan->state().highSeqno) {
            heldBack_ = {doc.meta.seqno, doc.meta.exptime};
            continue;
        }
        doomed.emplace_back(doc.key, doc.meta.seqno);
        if (doomed.size() == kBatch && !remove()) {
            return purged;
        }
    }
    if (!doomed.empty() && !remove()) {
        return purged;
    }
    oldestTombstone_.store(oldest, std::memory_order_relaxed);
    return purged;
}

void VbFlushTarget::persisted(const PersistedVbState& state) {
    assumeStored(state);
    vbucket_.checkpoints().persistence().persisted();
}

}  // namespace kv
