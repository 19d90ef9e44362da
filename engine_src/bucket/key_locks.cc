#include "bucket/key_locks.h"

#include <algorithm>

#include "bucket/random_bits.h"

namespace kv {

namespace {

/// At least kCasBound, and not all ones, which is the CAS that others see on a locked document.
Cas newCas() {
    uint64_t bits = ~uint64_t{0};
    while (bits == ~uint64_t{0}) {
        bits = randomBits() | kCasBound;
    }
    return Cas{bits};
}

}  // namespace

Cas KeyLocks::lock(std::string_view key, uint64_t now, uint64_t until) {
    const Cas cas = newCas();
    const std::lock_guard lock(mutex_);
    if (held_.size() >= clearAt_) {
        eraseExpired(now);
    }
    held_.insert_or_assign(std::string(key), Held{cas, until});
    return cas;
}

Cas KeyLocks::holder(std::string_view key, uint64_t now) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(key);
    if (found == held_.end()) {
        return {};
    }
    if (found->second.until <= now) {
        held_.erase(found);
        return {};
    }
    return found->second.cas;
}

void KeyLocks::unlock(std::string_view key) {
    const std::lock_guard lock(mutex_);
    if (const auto found = held_.find(key); found != held_.end()) {
        held_.erase(found);
    }
}

void KeyLocks::eraseExpired(uint64_t now) {
    std::erase_if(held_, [&](const auto& entry) { return entry.second.until <= now; });
    clearAt_ = std::max(kLeastToClear, 2 * held_.size());
}

void KeyLocks::removeExpired(uint64_t now) {
    const std::lock_guard lock(mutex_);
    eraseExpired(now);
}

void KeyLocks::clear() {
    const std::lock_guard lock(mutex_);
    held_.clear();
}

size_t KeyLocks::size() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
}

}  // namespace kv
