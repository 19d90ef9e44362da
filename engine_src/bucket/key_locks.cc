#include "bucket/key_locks.h"

namespace kv {

Cas KeyLocks::lock(std::string_view key, uint32_t untilSeconds) {
    const std::lock_guard lock(mutex_);
    const Cas cas{kLockCas | ++count_};
    held_.insert_or_assign(std::string(key), Held{cas, untilSeconds});
    return cas;
}

Cas KeyLocks::holder(std::string_view key, uint32_t nowSeconds) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(std::string(key));
    if (found == held_.end()) {
        return {};
    }
    if (found->second.untilSeconds <= nowSeconds) {
        held_.erase(found);
        return {};
    }
    return found->second.cas;
}

void KeyLocks::unlock(std::string_view key) {
    const std::lock_guard lock(mutex_);
    held_.erase(std::string(key));
}

void KeyLocks::clear() {
    const std::lock_guard lock(mutex_);
    held_.clear();
}

}  // namespace kv
