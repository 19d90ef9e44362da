#include "bucket/failover_log.h"

#include <random>

namespace kv {

namespace {

/// Never 0, at most 48 bits (some clients keep uuids in doubles).
VbUuid randomUuid() {
    static std::mutex mutex;
    static std::mt19937_64 random = [] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device()};
        return std::mt19937_64(seed);
    }();
    const std::lock_guard lock(mutex);
    return VbUuid{std::uniform_int_distribution<uint64_t>(1, (uint64_t{1} << 48) - 1)(random)};
}

}  // namespace

std::vector<FailoverEntry> FailoverLog::entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
}

VbUuid FailoverLog::uuidOf(Seqno seqno) const {
    const std::lock_guard lock(mutex_);
    // An entry's own seqno is the last that it shares with the one before.
    for (const FailoverEntry& entry : entries_) {
        if (entry.seqno < seqno) {
            return entry.uuid;
        }
    }
    return entries_.empty() ? VbUuid{} : entries_.back().uuid;
}

VbUuid FailoverLog::prepare() {
    const std::lock_guard lock(mutex_);
    entries_.reserve(entries_.size() + 1);
    return randomUuid();
}

void FailoverLog::begin(VbUuid uuid, Seqno highSeqno) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const FailoverEntry& entry) { return entry.seqno > highSeqno; });
    entries_.insert(entries_.begin(), FailoverEntry{uuid, highSeqno});
    if (entries_.size() > kMaxEntries) {
        entries_.resize(kMaxEntries);
    }
    uuid_.store(uuid.get(), std::memory_order_release);
}

void FailoverLog::replace(std::vector<FailoverEntry> entries) {
    const std::lock_guard lock(mutex_);
    entries_ = std::move(entries);
    uuid_.store(entries_.empty() ? 0 : entries_.front().uuid.get(), std::memory_order_release);
}

}  // namespace kv
