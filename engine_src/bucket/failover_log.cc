#include "bucket/failover_log.h"

#include <cstddef>

#include "bucket/random_bits.h"

namespace kv {

namespace {

/// Never 0, at most 48 bits (some clients keep uuids in doubles).
VbUuid randomUuid() {
    uint64_t bits = 0;
    while (bits == 0) {
        bits = randomBits() >> 16U;
    }
    return VbUuid{bits};
}

}  // namespace

std::vector<FailoverEntry> FailoverLog::entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
}

VbUuid FailoverLog::uuidOf(Seqno seqno) const {
    const std::lock_guard lock(mutex_);
    // The seqno of an entry is the last that it shares with the entry before.
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
    while (entries_.size() > kMaxEntries) {
        // Copies name the oldest history that has their seqno, so one without a seqno of its own is
        // missed least: it began at the same seqno as the next one.
        size_t dropped = entries_.size() - 1;
        while (dropped > 0 && entries_[dropped].seqno != entries_[dropped - 1].seqno) {
            --dropped;
        }
        if (dropped == 0) {
            dropped = entries_.size() - 1;
        }
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(dropped));
    }
    uuid_.store(uuid.get(), std::memory_order_release);
}

void FailoverLog::replace(std::vector<FailoverEntry> entries) {
    const std::lock_guard lock(mutex_);
    entries_ = std::move(entries);
    uuid_.store(entries_.empty() ? 0 : entries_.front().uuid.get(), std::memory_order_release);
}

}  // namespace kv
