#include "bucket/vb_flush_target.h"

#include <utility>

namespace kv {

FlushBatch VbFlushTarget::takeItemsToPersist(size_t limit) {
    CursorItems read = vbucket_.checkpoints().takeItemsToPersist(limit);
    FlushBatch batch;
    batch.items = std::move(read.items);
    if (!read.ranges.empty()) {
        batch.snapshot = read.ranges.back().snapshot;
    }
    return batch;
}

PersistedVbState VbFlushTarget::stateToPersist() {
    PersistedVbState state = stored_;
    state.state = static_cast<uint8_t>(vbucket_.state());
    state.failoverLog = vbucket_.failoverLog().entries();
    if (vbucket_.state() == VbState::Active) {
        // What was promised of a snapshot while this was a replica will not come.
        state.snapshot.end = std::min(state.snapshot.end, state.highSeqno);
    }
    return state;
}

void VbFlushTarget::assumeStored(const PersistedVbState& state) {
    stored_ = state;
    persistedSeqno_.store(state.highSeqno.get(), std::memory_order_release);
    isStored_.store(true, std::memory_order_release);
}

void VbFlushTarget::persisted(const PersistedVbState& state) {
    assumeStored(state);
    vbucket_.checkpoints().persisted();
}

}  // namespace kv
