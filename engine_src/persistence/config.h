// The settings of a Flusher and of a RocksStore.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace rocksdb {
class Env;
}

namespace kv {

struct FlusherConfig {
    size_t batchItems{
            1'000'000};  ///< flusher_batch_split_trigger: items of a transaction, whole checkpoints
    /// Bytes of one vBucket's part of a transaction, which holds a copy of everything that it
    /// writes.
    size_t batchBytes{size_t{64} << 20};
    std::chrono::nanoseconds retryDelay{std::chrono::seconds(1)};  ///< after a failed transaction
    /// flusher_interval_ms: shortest time between the starts of two passes over the dirty vBuckets.
    /// Longer: more mutations of a key become one write, and there are fewer transactions.
    std::chrono::nanoseconds interval{std::chrono::milliseconds(100)};
    size_t vbucketsPerRun{64};  ///< after that, other tasks of the pool run
};

struct RocksConfig {
    /// Table files that a store keeps open.
    static constexpr int kTableFiles = 256;
    /// Upper estimate of the descriptors of a store: table files, logs, and what is being written.
    static constexpr size_t kDescriptors = kTableFiles + 64;

    bool sync{false};  ///< fsync at every commit (--fsync commit)
    size_t writeBufferBytes{
            16u << 20};  ///< rocksdb_write_buffer_mb: all memtables of a shard together
    size_t blockCacheBytes{16u << 20};  ///< rocksdb_block_cache_mb: per shard
    std::string compression{"none"};    ///< rocksdb_compression: none | lz4 | snappy | zstd
    /// Bytes of the one write that a rollback is; a longer one is not made, and the vBucket starts
    /// over.
    size_t rollbackBytes{64u << 20};
    bool mayCreate{true};  ///< if there is no store; false: StoreError
    /// The last stop was clean, so the write-ahead log must be complete; otherwise StoreError.
    /// Without this the readable part is taken, and the rest is cut off and logged.
    bool needsWholeLog{false};
    /// Continues even if a manifest is damaged or a log is missing.
    bool acceptLoss{false};
    /// A stop does not wait longer for a flush: the documents are then in the log.
    std::chrono::milliseconds longestFlush{60'000};
    rocksdb::Env* env{nullptr};  ///< its files; nullptr: the operating system's. Outlives the store
};

}  // namespace kv
