// BackgroundTasks: schedules the recurring work of a bucket on an executor for as long as this
// object lives.
//
// Ownership: the executor and the bucket outlive it. The destructor returns when none of its tasks
// runs any more.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bucket/bucket.h"
#include "executor/executor.h"

namespace kv::server {

/// The period of each task.
struct TaskPeriods {
    std::chrono::nanoseconds expiry{std::chrono::seconds(60)};
    std::chrono::nanoseconds hashResize{std::chrono::seconds(1)};
    std::chrono::nanoseconds tombstonePurge{std::chrono::seconds(10)};
    std::chrono::nanoseconds checkpointRemoval{std::chrono::seconds(5)};
    std::chrono::nanoseconds checkpointMemoryWatch{std::chrono::milliseconds(100)};
};

class BackgroundTasks {
  public:
    BackgroundTasks(Executor& executor, Bucket& bucket, const TaskPeriods& periods);
    BackgroundTasks(const BackgroundTasks&) = delete;
    BackgroundTasks& operator=(const BackgroundTasks&) = delete;
    ~BackgroundTasks();

  private:
    void every(const std::string& name, std::chrono::nanoseconds period,
               std::function<size_t()> work);
    void purgeTombstones(Bucket& bucket, std::chrono::nanoseconds period);

    Executor& executor_;
    std::vector<TaskPtr> tasks_;
};

/// Returns the lines of STAT tasks: state, number of runs and time of every task.
std::vector<std::pair<std::string, std::string>> taskStats(const Executor& executor);

}  // namespace kv::server
