#include "server/engine_bucket.h"

#include <fmt/format.h>

#include <chrono>

#include "logging/log.h"

namespace kv::server {

namespace {

int64_t millis(std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

/// Bytes that a store holds in memory; they are charged to no bucket.
uint64_t memoryOf(const KVStoreStats& store) {
    return store.memtableBytes + store.blockCacheBytes + store.tableReaderBytes;
}

}  // namespace

EngineBucket::EngineBucket(const CommandLine& line, Executor& executor) : executor_(executor) {
    if (line.bucketType == BucketType::Persistent) {
        open(line, executor);
    } else {
        bucket_ = Bucket::createEphemeral(line.params.bucket);
    }
    fence_ = std::make_unique<ClusterFence>(*bucket_, line.dataDir / "cluster.json");
    if (!line.replicateFrom.host.empty()) {
        begin(VbState::Replica);
    } else if (!line.cluster && !fence_->isUp()) {
        begin(VbState::Active);
    }  // otherwise they stay dead until a manager sets their state
    if (persistent_ != nullptr) {
        persistent_->startFlushing();
    }
}

void EngineBucket::open(const CommandLine& line, Executor& executor) {
    PersistenceConfig persistence{.dataDir = line.dataDir.string(),
                                  .shards = line.shards,
                                  .rocks = line.params.rocks,
                                  .flusher = line.params.flusher,
                                  .acceptLoss = line.acceptLoss};
    persistence.rocks.sync = line.params.fsync == "commit";
    if (line.params.fsync == "interval") {
        persistence.syncInterval = line.params.fsyncInterval;
    }
    survives_ = line.params.fsync == "commit"     ? "power loss"
                : line.params.fsync == "interval" ? fmt::format(
                                                            "process death; power loss after "
                                                            "{} ms",
                                                            millis(persistence.syncInterval))
                                                  : "process death";
    auto bucket = std::make_unique<PersistentBucket>(line.params.bucket, persistence, executor);
    persistent_ = bucket.get();
    bucket_ = std::move(bucket);
    warmup_ = persistent_->warmUp();
    log::info("warm-up: {} documents, {} vBuckets, {} ms, last stop {}", warmup_.documents,
              warmup_.vbuckets, millis(warmup_.duration), warmup_.clean ? "clean" : "not clean");
    if (warmup_.lostVBuckets != 0) {
        log::error("warm-up: {} documents are lost; {} vBuckets begin without a history",
                   warmup_.lostDocuments, warmup_.lostVBuckets);
    }
}

void EngineBucket::begin(VbState initial) {
    const auto now = OpTime::now();
    for (uint16_t id = 0; id < bucket_->vbucketCount(); ++id) {
        if (persistent_ == nullptr || !persistent_->isStored(Vbid{id})) {
            bucket_->setVBucketState(Vbid{id}, initial, now);
        }
    }
}

void EngineBucket::addStats(ServerContext& context) const {
    context.statSources.emplace_back("", [this] { return fence_->stats(); });
    if (persistent_ == nullptr) {
        return;
    }
    context.persistedSeqno = [this](Vbid vbid) { return persistent_->persistedSeqno(vbid); };
    context.statSources.emplace_back("kvstore", [this] {
        const auto stats = persistent_->persistenceStats().store;
        return KeyValues{{"rw:commits", std::to_string(stats.commits)},
                         {"rw:failed_commits", std::to_string(stats.failedCommits)},
                         {"rw:sets", std::to_string(stats.sets)},
                         {"rw:deletes", std::to_string(stats.deletes)},
                         {"rw:bytes_written", std::to_string(stats.bytesWritten)},
                         {"rw:memory_bytes", std::to_string(memoryOf(stats))},
                         {"rw:disk_bytes", std::to_string(stats.diskBytes)}};
    });
    context.statSources.emplace_back("", [this] {
        const auto stats = persistent_->persistenceStats();
        return KeyValues{{"ep_total_persisted", std::to_string(stats.totalPersisted)},
                         {"ep_total_enqueued", std::to_string(stats.totalEnqueued)},
                         {"ep_total_new_items", std::to_string(stats.inserts)},
                         {"ep_total_updated_items", std::to_string(stats.updates)},
                         {"ep_total_del_items", std::to_string(stats.deletes)},
                         {"ep_commit_num", std::to_string(stats.flushes)},
                         {"ep_item_commit_failed", std::to_string(stats.failedFlushes)},
                         {"ep_flush_failed_items", std::to_string(stats.failedItems)},
                         {"ep_persisted_survives", survives_},
                         {"ep_store_syncs", std::to_string(stats.store.syncs)}};
    });
    context.statSources.emplace_back("memory", [this] {
        const auto store = persistent_->persistenceStats().store;
        return KeyValues{{"ep_store_memtable_bytes", std::to_string(store.memtableBytes)},
                         {"ep_store_block_cache_bytes", std::to_string(store.blockCacheBytes)},
                         {"ep_store_table_reader_bytes", std::to_string(store.tableReaderBytes)},
                         {"ep_store_memory", std::to_string(memoryOf(store))}};
    });
    context.statSources.emplace_back("warmup", [this] {
        return KeyValues{{"ep_warmup_value_count", std::to_string(warmup_.documents)},
                         {"ep_warmup_tombstones", std::to_string(warmup_.tombstones)},
                         {"ep_warmup_vbuckets", std::to_string(warmup_.vbuckets)},
                         {"ep_warmup_time_ms", std::to_string(millis(warmup_.duration))},
                         {"ep_warmup_clean_stop", warmup_.clean ? "true" : "false"},
                         {"ep_warmup_lost_documents", std::to_string(warmup_.lostDocuments)},
                         {"ep_warmup_lost_vbuckets", std::to_string(warmup_.lostVBuckets)},
                         {"ep_warmup_cut_off_bytes", std::to_string(warmup_.cutOffBytes)}};
    });
}

void EngineBucket::startBackground(const TaskPeriods& periods) {
    tasks_ = std::make_unique<BackgroundTasks>(executor_, *bucket_, periods);
}

bool EngineBucket::persistAll() {
    tasks_.reset();
    return persistent_ == nullptr || persistent_->persistAll();
}

}  // namespace kv::server
