#include "bucket/bucket_stats.h"

#include <algorithm>
#include <cstdint>

#include "bucket/vbucket.h"

namespace kv {

BucketStats readStats(const std::vector<std::unique_ptr<VBucket>>& vbuckets) {
    BucketStats stats;
    HashTableSums total;
    for (const auto& vbucket : vbuckets) {
        const HashTable& table = vbucket->hashTable();
        const HashTableSums sums = table.sums();
        total.items += sums.items;
        total.tombstones += sums.tombstones;
        total.nonResident += sums.nonResident;
        total.expiring += sums.expiring;
        total.metaBytes += sums.metaBytes;
        total.valueBytes += sums.valueBytes;
        stats.hashTableMemory += table.fixedBytes();
        stats.checkpointMemory += vbucket->checkpoints().memory();
        if (const SequenceList* sequence = vbucket->sequence()) {
            stats.staleVersions += sequence->staleCount();
        }
    }
    // A sum that is read while mutations run may be wrong for a moment, even below zero.
    const auto count = [](int64_t value) {
        return static_cast<size_t>(std::max<int64_t>(0, value));
    };
    stats.items = count(total.items);
    stats.tombstones = count(total.tombstones);
    stats.nonResident = count(total.nonResident);
    stats.expiring = count(total.expiring);
    stats.valueSize = count(total.valueBytes);
    stats.kvSize = count(total.metaBytes + total.valueBytes);
    stats.storedValues = count(total.items + total.tombstones);
    stats.blobs = count(total.items - total.nonResident);
    stats.overhead = stats.hashTableMemory + stats.checkpointMemory;
    if (!vbuckets.empty()) {
        stats.htStatsBytesPerVb = vbuckets.front()->hashTable().statsBytes();
        stats.htStatsStripes = vbuckets.front()->hashTable().statsStripes();
    }
    return stats;
}

}  // namespace kv
