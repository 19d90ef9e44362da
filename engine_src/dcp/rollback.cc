#include "dcp/rollback.h"

#include <algorithm>

namespace kv::dcp {

std::optional<SnapshotRange> partialSnapshot(const ResumePoint& client) {
    if (client.start == client.snapshot.start || client.start == client.snapshot.end) {
        return std::nullopt;
    }
    return client.snapshot;
}

std::optional<Seqno> rollbackPoint(const ResumePoint& client, const std::vector<FailoverEntry>& log,
                                   Seqno high, Seqno purged) {
    if (client.start == Seqno{0} && !(client.strict && client.uuid != VbUuid{0})) {
        return std::nullopt;  // it has nothing that could be wrong
    }
    if (client.start != Seqno{0} && client.start < purged) {
        return Seqno{0};
    }
    const auto history = std::find_if(log.begin(), log.end(), [&](const FailoverEntry& entry) {
        return entry.uuid == client.uuid;
    });
    if (history == log.end()) {
        return Seqno{0};
    }
    // The client's history is ours up to where the next newer one began, or to what we have of it.
    const Seqno shared = history == log.begin() ? high : std::prev(history)->seqno;
    const SnapshotRange open =
            partialSnapshot(client).value_or(SnapshotRange{client.start, client.start});
    if (open.end <= shared) {
        return std::nullopt;
    }
    // A snapshot that goes beyond what we share cannot be completed: back to before it.
    return std::min(open.start, shared);
}

}  // namespace kv::dcp
