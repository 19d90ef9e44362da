// Decides whether a client that wants to resume a stream has a history that is ours, and if not, up
// to which seqno. A pure function.
#pragma once

#include <optional>
#include <vector>

#include "persistence/stored_types.h"
#include "types/ids.h"

namespace kv::dcp {

/// The position of a client: it has every seqno up to `start` of the history `uuid`, and `start` is
/// in `snapshot`, of which it may have received a part.
struct ResumePoint {
    Seqno start{};
    VbUuid uuid{};
    SnapshotRange snapshot{};  ///< snapshot.start <= start <= snapshot.end
    bool strict{false};        ///< a uuid given with start 0 must be known as well
};

/// Returns the snapshot that the client has in part. A complete snapshot, or one of which nothing
/// was received, does not count.
std::optional<SnapshotRange> partialSnapshot(const ResumePoint& client);

/// Returns nothing if the stream may continue; otherwise the seqno that the client must roll back
/// to before it asks again. `log` is the vBucket's failover log, newest first; `high` its high
/// seqno; `purged` the highest seqno of a tombstone that no longer exists here (a client below it
/// cannot learn of that deletion).
std::optional<Seqno> rollbackPoint(const ResumePoint& client, const std::vector<FailoverEntry>& log,
                                   Seqno high, Seqno purged);

}  // namespace kv::dcp
