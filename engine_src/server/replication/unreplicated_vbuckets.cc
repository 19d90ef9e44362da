#include "server/replication/unreplicated_vbuckets.h"

#include <fmt/format.h>

#include <algorithm>

namespace kv::server {

uint64_t documentsIn(const VBucket& vbucket) {
    return static_cast<uint64_t>(std::max<int64_t>(0, vbucket.hashTable().sums().items));
}

bool UnreplicatedVBuckets::addRefusal(Vbid vbid, uint64_t term, protocol::Status status) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.try_emplace(vbid).first;
    const auto* const before = std::get_if<protocol::Status>(&entry->second.reason);
    const bool changed = before == nullptr || *before != status;
    entry->second = {term, status};
    return changed;
}

bool UnreplicatedVBuckets::addKeptCopy(Vbid vbid, uint64_t term, const KeptCopy& copy) {
    const std::lock_guard lock(mutex_);
    const auto [entry, added] = entries_.try_emplace(vbid);
    const bool changed = added || !std::holds_alternative<KeptCopy>(entry->second.reason);
    entry->second = {term, copy};
    return changed;
}

void UnreplicatedVBuckets::remove(Vbid vbid) {
    const std::lock_guard lock(mutex_);
    entries_.erase(vbid);
}

bool UnreplicatedVBuckets::isKeptForGood(Vbid vbid) const {
    const auto found = entries_.find(vbid);
    const auto* const copy =
            found == entries_.end() ? nullptr : std::get_if<KeptCopy>(&found->second.reason);
    return copy != nullptr && copy->forGood;
}

void UnreplicatedVBuckets::addStats(KeyValues& stats) const {
    size_t copies = 0;
    size_t refusals = 0;
    const std::lock_guard lock(mutex_);
    for (const auto& [vbid, entry] : entries_) {
        const VBucket& vbucket = bucket_.vbucket(vbid);
        if (vbucket.term() != entry.term) {
            continue;
        }
        if (const auto* const status = std::get_if<protocol::Status>(&entry.reason)) {
            ++refusals;
            stats.emplace_back(fmt::format("vb_{}:stream_refused", vbid.get()),
                               fmt::format("{} (0x{:02x})", protocol::toString(*status),
                                           protocol::raw(*status)));
            continue;
        }
        ++copies;
        stats.emplace_back(fmt::format("vb_{}:copy_kept", vbid.get()),
                           fmt::format("{} documents up to seqno {}; the source has another "
                                       "history, which ended at seqno {}",
                                       documentsIn(vbucket), vbucket.highSeqno().get(),
                                       std::get<KeptCopy>(entry.reason).sourceHigh.get()));
    }
    stats.emplace_back("copies_kept", std::to_string(copies));
    stats.emplace_back("streams_refused", std::to_string(refusals));
}

}  // namespace kv::server
