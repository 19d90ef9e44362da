// BucketStats: one reading of a bucket's sums over its vBuckets.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace kv {

class VBucket;

/// Exact when the bucket is idle.
struct BucketStats {
    size_t items{0};        ///< live documents
    size_t tombstones{0};   ///< deleted documents still in the hash tables
    size_t nonResident{0};  ///< live documents whose value is on disk only
    /// Bytes requested for keys, values and their metadata (StoredValues and Blobs).
    size_t kvSize{0};
    size_t expiring{0};          ///< live documents with an expiry time
    size_t valueSize{0};         ///< bytes of values in kvSize
    size_t overhead{0};          ///< bytes of hash tables and checkpoints; not in kvSize
    size_t storedValues{0};      ///< StoredValues in the hash tables
    size_t blobs{0};             ///< live documents with their value in memory
    size_t staleVersions{0};     ///< ephemeral: replaced versions that a reader still needs
    size_t checkpointMemory{0};  ///< bytes that checkpoints keep alive
    size_t hashTableMemory{0};   ///< bytes of hash tables (heads, locks, statistics stripes)
    size_t htStatsBytesPerVb{0};
    size_t htStatsStripes{0};
};

/// Visits all vBuckets.
[[nodiscard]] BucketStats readStats(const std::vector<std::unique_ptr<VBucket>>& vbuckets);

}  // namespace kv
