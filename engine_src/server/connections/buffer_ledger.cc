#include "server/connections/buffer_ledger.h"

#include <algorithm>
#include <utility>

namespace kv::server {

std::vector<BufferLedger::Holder> BufferLedger::update(const Holder& holder, std::string_view user,
                                                       size_t bytes, size_t limit) {
    const std::lock_guard lock(mutex_);
    Holding& holding = holdings_[holder.id];
    holding.thread = holder.thread;
    if (holding.user != user) {
        holding.user = user;
    }
    const bool grew = bytes > holding.bytes;
    // Wraps when the holding shrank.
    held_.fetch_add(bytes - holding.bytes, std::memory_order_relaxed);
    leavingBytes_ += holding.leaving ? bytes - holding.bytes : 0;
    holding.bytes = bytes;
    std::vector<Holder> doomed;
    while (grew && held() - leavingBytes_ > limit) {
        const auto next = largest();
        doomed.push_back({next->second.thread, next->first});  // may fail, so it comes first
        next->second.leaving = true;
        leavingBytes_ += next->second.bytes;
    }
    return doomed;
}

BufferLedger::Holdings::iterator BufferLedger::largest() {
    std::unordered_map<std::string_view, size_t> sums;
    for (const auto& [id, holding] : holdings_) {
        sums[holding.user] += holding.leaving ? 0 : holding.bytes;
    }
    const auto rank = [&sums](const Holding& holding) {
        return holding.leaving ? std::pair<size_t, size_t>{}
                               : std::pair{sums[holding.user], holding.bytes};
    };
    return std::max_element(holdings_.begin(), holdings_.end(), [&rank](auto& left, auto& right) {
        return rank(left.second) < rank(right.second);
    });
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
