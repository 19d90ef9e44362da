#include "server/background_tasks.h"

#include <fmt/format.h>

#include "logging/log.h"

namespace kv::server {

BackgroundTasks::BackgroundTasks(Executor& executor, Bucket& bucket, const TaskPeriods& periods)
    : executor_(executor) {
    every("expiry_pager", periods.expiry, [&bucket] { return bucket.expirePass(OpTime::now()); });
    every("hash_table_resizer", periods.hashResize,
          [&bucket] { return bucket.resizeHashTables(); });
    purgeTombstones(bucket, periods.tombstonePurge);
    every("checkpoint_remover", periods.checkpointRemoval,
          [&bucket] { return bucket.removeClosedCheckpoints(OpTime::now()); });
    // Mutations are refused while memory is short, so recovery must not wait for the next period.
    every("checkpoint_memory_watch", periods.checkpointMemoryWatch, [&bucket] {
        return bucket.needsCheckpointRecovery() ? bucket.removeClosedCheckpoints(OpTime::now())
                                                : size_t{0};
    });
}

BackgroundTasks::~BackgroundTasks() {
    for (const auto& task : tasks_) {
        executor_.cancel(task);
    }
}

void BackgroundTasks::every(const std::string& name, std::chrono::nanoseconds period,
                            std::function<size_t()> work) {
    auto run = [name, period, work = std::move(work)] {
        if (const size_t done = work(); done != 0) {
            log::debug("task {}: {}", name, done);
        }
        return TaskResult::after(period);
    };
    tasks_.push_back(executor_.schedule(name, TaskPool::NonIO, period, std::move(run)));
}

void BackgroundTasks::purgeTombstones(Bucket& bucket, std::chrono::nanoseconds period) {
    // From disk a step takes a while. One vBucket per step leaves time for the other tasks of the
    // pool.
    const TaskPool pool =
            bucket.type() == BucketType::Persistent ? TaskPool::Writer : TaskPool::NonIO;
    auto run = [&bucket, period, next = uint16_t{0}]() mutable {
        while (next < bucket.vbucketCount()) {
            const Vbid vbid{next++};
            if (const size_t purged = bucket.purgeTombstonesOf(vbid, OpTime::now()); purged != 0) {
                log::debug("vb {}: {} tombstones purged", vbid.get(), purged);
                return TaskResult::again();
            }
        }
        next = 0;
        return TaskResult::after(period);
    };
    tasks_.push_back(executor_.schedule("tombstone_purger", pool, period, std::move(run)));
}

std::vector<std::pair<std::string, std::string>> taskStats(const Executor& executor) {
    std::vector<std::pair<std::string, std::string>> lines;
    size_t number = 0;
    for (const auto& task : executor.stats()) {
        // Several flushers share a name: the number keeps the keys apart.
        lines.emplace_back(
                fmt::format("{}:{}", number++, task.name),
                fmt::format("pool={} state={} runs={} total_us={} longest_us={}",
                            toString(task.pool), task.state, task.runs,
                            task.totalTime.count() / 1000, task.longestTime.count() / 1000));
    }
    return lines;
}

}  // namespace kv::server
