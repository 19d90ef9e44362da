#include "bucket/seqno_listeners.h"

#include <mutex>
#include <shared_mutex>

#include "options/mutation.h"
#include "types/contention.h"

namespace kv {

void SeqnoListeners::add(SeqnoListener* listener) {
    const std::unique_lock lock(mutex_);
    listeners_.push_back(listener);
    count_.store(listeners_.size(), std::memory_order_release);
}

void SeqnoListeners::remove(SeqnoListener* listener) {
    const std::unique_lock lock(mutex_);
    std::erase(listeners_, listener);
    count_.store(listeners_.size(), std::memory_order_release);
}

void SeqnoListeners::notifyAll(Vbid vbid, Seqno seqno) noexcept {
    if (options::mutated(options::Mutation::LostDcpWakeup, 50)) {
        return;
    }
    const auto lock =
            lockCounted<std::shared_lock<ReadMostlyMutex>>(mutex_, contention.listenerLocks);
    for (SeqnoListener* listener : listeners_) {
        listener->onSeqno(vbid, seqno);
    }
}

void SeqnoListeners::notifyRolledBack(Vbid vbid) noexcept {
    const std::shared_lock lock(mutex_);
    for (SeqnoListener* listener : listeners_) {
        listener->onRolledBack(vbid);
    }
}

void SeqnoListeners::notifyStateChanged(Vbid vbid) noexcept {
    const std::shared_lock lock(mutex_);
    for (SeqnoListener* listener : listeners_) {
        listener->onStateChanged(vbid);
    }
}

}  // namespace kv
