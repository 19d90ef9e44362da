// Whether a client that wants to go on with a stream has a history that is ours, and if not, up to
// where it has. A pure function.
#pragma once

#include <optional>
#include <vector>

#include "persistence/stored_types.h"
#include "types/ids.h"
#include "types/snapshot_range.h"

namespace kv::dcp {

/// Where a client stands: it has every seqno up to `start` of the history `uuid`, and `start` lies
/// in `snapshot`, of which it may have received a part.
struct ResumePoint {
    Seqno start{};
    VbUuid uuid{};
    SnapshotRange snapshot{};  ///< snapshot.start <= start <= snapshot.end
    bool strict{false};        ///< a uuid given with start 0 must be known, too
};

/// The snapshot that the client has in part; one that is complete, or that nothing was received of,
/// does not matter.
std::optional<SnapshotRange> partialSnapshot(const ResumePoint& client);

/// Empty: the stream may go on. Otherwise the seqno that the client must roll back to before it
/// asks again. `log` is the vBucket's failover log, newest first; `high` its high seqno; `purged`
/// the highest seqno of a tombstone that no longer exists here (a client below it cannot be told of
/// that deletion).
std::optional<Seqno> rollbackPoint(const ResumePoint& client, const std::vector<FailoverEntry>& log,
                                   Seqno high, Seqno purged);

}  // namespace kv::dcp
