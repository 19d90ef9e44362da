// ProducerTasks: the background tasks of one producer: its snapshots and its backfills.
//
// Snapshots follow each other no faster than the snapshot interval. The first one after a quiet
// time is taken at once, so a single mutation is not delayed. Under load the streams stay in the
// task's queue until the interval is over, so they need no notification and the front-end threads
// wake nobody. Interval 0 means as fast as the client asks (the historic behaviour).
//
// Ownership: producer, bucket memory and executor outlive it. The destructor returns when no task
// runs any more. Threads: the wake functions from any.
#pragma once

#include <chrono>

#include "executor/executor.h"
#include "memory/bucket_memory.h"

namespace kv::dcp {

constexpr std::chrono::microseconds kDefaultSnapshotInterval{500};
/// Time between two attempts to open a scan while others use all slots.
constexpr std::chrono::milliseconds kSlotRetry{50};

template <class Producer>
class ProducerTasks {
  public:
    ProducerTasks(Producer& producer, BucketMemory& memory, Executor& executor,
                  std::chrono::nanoseconds snapshotInterval)
        : executor_(executor), interval_(snapshotInterval) {
        snapshots_ =
                executor_.schedule("dcp_snapshots " + producer.name(), TaskPool::AuxIO, kNever,
                                   [this, &producer, &memory] {
                                       const TaskTime now = executor_.now();
                                       if (now < notBefore_) {
                                           return TaskResult::after(notBefore_ - now);
                                       }
                                       const BucketMemoryGuard guard(memory);
                                       const bool more = producer.runSnapshots();
                                       notBefore_ = executor_.now() + interval_;
                                       return more ? TaskResult::again() : TaskResult::untilWoken();
                                   });
        backfills_ = executor_.schedule("dcp_backfills " + producer.name(), TaskPool::AuxIO, kNever,
                                        [&producer, &memory] {
                                            const BucketMemoryGuard guard(memory);
                                            switch (producer.runBackfills()) {
                                                case Producer::Backfills::More:
                                                    return TaskResult::again();
                                                case Producer::Backfills::NoSlot:
                                                    return TaskResult::after(kSlotRetry);
                                                case Producer::Backfills::Done:
                                                    break;
                                            }
                                            return TaskResult::untilWoken();
                                        });
    }
    ProducerTasks(const ProducerTasks&) = delete;
    ProducerTasks& operator=(const ProducerTasks&) = delete;
    ~ProducerTasks() {
        executor_.cancel(snapshots_);
        executor_.cancel(backfills_);
    }

    void wakeSnapshots() { executor_.wake(snapshots_); }
    void wakeBackfills() { executor_.wake(backfills_); }

  private:
    Executor& executor_;
    const TaskTime interval_;
    TaskTime notBefore_{0};  ///< used only by the snapshot task
    TaskPtr snapshots_;
    TaskPtr backfills_;
};

}  // namespace kv::dcp
