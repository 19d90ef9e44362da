// FakeExecutor: runs tasks on the calling thread, on request, in a virtual time that only advance()
// moves.
//
// For tests and micro-benchmarks: the order of tasks depends only on the calls. Threads: not
// thread-safe, except that wake() may be called from other threads while no other function runs.
#pragma once

#include <mutex>
#include <string_view>
#include <vector>

#include "executor/executor.h"
#include "executor/task_list.h"

namespace kv {

class FakeExecutor final : public Executor {
  public:
    TaskPtr schedule(std::string name, TaskPool pool, TaskTime delay,
                     std::function<TaskResult()> function) override;
    void wake(const TaskPtr& task) override;
    void snooze(const TaskPtr& task, TaskTime delay) override;
    void cancel(const TaskPtr& task) override;
    [[nodiscard]] std::vector<TaskStats> stats() const override;
    [[nodiscard]] TaskTime now() const override { return now_; }

    /// Runs the earliest task that is due (ties: the one scheduled first) and returns its name;
    /// empty if none is due.
    std::string runNext();
    /// Runs until no task is due now. Throws std::logic_error after `limit` runs, because a task
    /// always wants to run again.
    size_t runDue(size_t limit = 100000);
    /// Advances the time and runs every task when it is due.
    void advance(TaskTime by);
    /// Wakes and runs the waiting task of that name; throws std::logic_error if there is none.
    void runTask(std::string_view name);

  private:
    void run(const TaskPtr& task);

    mutable std::mutex mutex_;
    TaskList list_;
    TaskTime now_{0};
};

}  // namespace kv
