// FakeExecutor: runs tasks on the calling thread, by hand, in a virtual time that only advance()
// moves.
//
// For tests and micro-benchmarks: which task runs when is a function of the calls made, nothing
// else. Not thread-safe, except that wake() may be called from other threads while no other
// function runs.
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
    /// empty when none is due.
    std::string runNext();
    /// Runs until no task is due now. Throws std::logic_error after `limit` runs: a task that
    /// always wants to run again.
    size_t runDue(size_t limit = 100000);
    /// Moves the time on, running every task at the time it is due.
    void advance(TaskTime by);
    /// Wakes and runs the one waiting task of that name; throws std::logic_error when there is
    /// none.
    void runTask(std::string_view name);

  private:
    void run(const TaskPtr& task);

    mutable std::mutex mutex_;
    TaskList list_;
    TaskTime now_{0};
};

}  // namespace kv
