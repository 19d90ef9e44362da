#include "dcp/rollback.h"

#include <algorithm>

#include "options/mutation.h"

namespace kv::dcp {

std::optional<SnapshotRange> partialSnapshot(const ResumePoint& client) {
    if (client.start == client.snapshot.start || client.start == client.snapshot.end) {
        return std::nullopt;
    }
    return client.snapshot;
}

std::optional<Seqno> rollbackPoint(const ResumePoint& client, const std::vector<FailoverEntry>& log,
                                   Seqno high, Seqno purged) {
    if (options::mutated(options::Mutation::RollbackSkipped)) {
        return std::nullopt;
    }
    if (client.start == Seqno{0} && !(client.strict && client.uuid != VbUuid{0})) {
        return std::nullopt;  // the client has nothing that could be wrong
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
    // The client's history is ours up to the beginning of the next newer one, or up to our end of
    // it.
    const Seqno shared = history == log.begin() ? high : std::prev(history)->seqno;
    const SnapshotRange open =
            partialSnapshot(client).value_or(SnapshotRange{client.start, client.start});
    if (open.end <= shared) {
        return std::nullopt;
    }
    // A snapshot that goes beyond the common part cannot be completed, so go back to before it.
    if (options::mutated(options::Mutation::RollbackOneShort)) {
        return kv::next(shared);
    }
    return std::min(open.start, shared);
}

}  // namespace kv::dcp
