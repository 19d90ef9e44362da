// ThreadExecutor: one group of threads per task pool.
//
// Ownership: owns its threads; the destructor lets running tasks finish their run, then joins.
// Threads: thread-safe; do not destroy it from one of its tasks.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/executor.h"
#include "executor/task_list.h"

namespace kv {

struct ThreadExecutorConfig {
    unsigned writers{2};
    unsigned auxIo{1};
    unsigned nonIo{1};
};

class ThreadExecutor final : public Executor {
  public:
    explicit ThreadExecutor(const ThreadExecutorConfig& config);
    ~ThreadExecutor() override;

    TaskPtr schedule(std::string name, TaskPool pool, TaskTime delay,
                     std::function<TaskResult()> function) override;
    void wake(const TaskPtr& task) override;
    void snooze(const TaskPtr& task, TaskTime delay) override;
    void cancel(const TaskPtr& task) override;
    [[nodiscard]] std::vector<TaskStats> stats() const override;
    [[nodiscard]] TaskTime now() const override;

  private:
    struct Pool {
        mutable std::mutex mutex;
        std::condition_variable work;   ///< a task may be due earlier than a thread thinks, or stop
        std::condition_variable ended;  ///< a task has finished a run
        TaskList list;
        std::vector<std::thread> threads;
        bool stop{false};
    };
    [[nodiscard]] Pool& poolOf(const Task& task) {
        return pools_[static_cast<size_t>(task.pool())];
    }
    void work(Pool& pool);

    std::array<Pool, kTaskPools> pools_;
};

}  // namespace kv
