#include "server/connections/buffer_ledger.h"

#include <algorithm>

namespace kv::server {

std::vector<BufferLedger::Holder> BufferLedger::update(const Holder& holder, size_t bytes,
                                                       size_t limit) {
    const std::lock_guard lock(mutex_);
    Holding& holding =
            holdings_.try_emplace(holder.id, Holding{holder.thread, 0, false}).first->second;
    const bool grew = bytes > holding.bytes;
    // Wraps when the holding shrank.
    held_.fetch_add(bytes - holding.bytes, std::memory_order_relaxed);
    leavingBytes_ += holding.leaving ? bytes - holding.bytes : 0;
    holding.bytes = bytes;
    std::vector<Holder> doomed;
    while (grew && held() - leavingBytes_ > limit) {
        const auto largest =
                std::max_element(holdings_.begin(), holdings_.end(), [](auto& left, auto& right) {
                    return (left.second.leaving ? 0 : left.second.bytes) <
                           (right.second.leaving ? 0 : right.second.bytes);
                });
        doomed.push_back({largest->second.thread, largest->first});  // may fail, so it comes first
        largest->second.leaving = true;
        leavingBytes_ += largest->second.bytes;
    }
    return doomed;
}

void BufferLedger::stays(uint64_t id) {
    const std::lock_guard lock(mutex_);
    if (const auto found = holdings_.find(id); found != holdings_.end() && found->second.leaving) {
        found->second.leaving = false;
        leavingBytes_ -= found->second.bytes;
    }
}

void BufferLedger::remove(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = holdings_.find(id);
    if (found == holdings_.end()) {
        return;
    }
    held_.fetch_sub(found->second.bytes, std::memory_order_relaxed);
    leavingBytes_ -= found->second.leaving ? found->second.bytes : 0;
    holdings_.erase(found);
}

}  // namespace kv::server
