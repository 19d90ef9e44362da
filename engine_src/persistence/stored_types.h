// The types of a KVStore besides documents, and the form in which readers see documents.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "persistence/rollback_points.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

/// One history of a vBucket: `uuid` owns the seqnos after `seqno`. Newest first in a failover log.
struct FailoverEntry {
    VbUuid uuid{};
    Seqno seqno{};
    friend bool operator==(const FailoverEntry&, const FailoverEntry&) = default;
};

/// The state of a vBucket, written in the same transaction as the documents that it describes.
struct PersistedVbState {
    uint8_t state{4};          ///< protocol number: 1 active, 2 replica, 3 pending, 4 dead
    Seqno highSeqno{};         ///< of the last stored mutation
    SnapshotRange snapshot{};  ///< the snapshot that contains highSeqno
    Cas maxCas{};
    Seqno purgedSeqno{};        ///< highest seqno of a tombstone that was purged
    uint64_t maxDeletedRev{0};  ///< highest revision among tombstones, including purged ones
    VbUuid refusedHistory{};    ///< as VBucket::refusedHistory()
    std::vector<FailoverEntry> failoverLog{};
    RollbackPoints rollbackPoints{};
    /// Call it when seqno and snapshot are those of a commit.
    void noteCommit() {
        if (highSeqno == snapshot.end) {
            rollbackPoints.add(highSeqno);
        }
    }
    friend bool operator==(const PersistedVbState&, const PersistedVbState&) = default;
};

/// A stored document. The views are valid until the reader's next step.
struct StoredDoc {
    std::string_view key;
    ItemMeta meta;
    ItemOp op{ItemOp::Mutation};
    std::string_view value;
};

struct KVStoreStats {
    uint64_t commits{0};
    uint64_t failedCommits{0};
    uint64_t syncs{0};             ///< calls of sync() that succeeded
    uint64_t sets{0};              ///< documents of the commits
    uint64_t deletes{0};           ///< tombstones of the commits
    uint64_t bytesWritten{0};      ///< of the commits, as handed to the store
    uint64_t memtableBytes{0};     ///< write buffers
    uint64_t blockCacheBytes{0};   ///< blocks read from table files, their indexes and filters
    uint64_t tableReaderBytes{0};  ///< memory of open table files outside the cache
    uint64_t diskBytes{0};         ///< live table files
    uint64_t cutOffBytes{0};       ///< of the log that could not be read when the store was opened
    bool hasGaps{false};  ///< it was opened although writes older than the last ones may be missing
};

}  // namespace kv
