// Executor: runs the engine's background tasks.
//
// Ownership: outlives every task's owner; tasks are shared. Threads: all functions may be called
// from any thread, also from inside a task. A task runs on one thread at a time, and the writes of
// a run are visible to the next run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/task.h"

namespace kv {

class Executor {
  public:
    Executor() = default;
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    virtual ~Executor() = default;

    /// Schedules the first run after `delay` (zero: at once; kNever: when woken).
    virtual TaskPtr schedule(std::string name, TaskPool pool, TaskTime delay,
                             std::function<TaskResult()> function) = 0;
    /// Runs the task as soon as possible; if it is running, once more afterwards. No allocation.
    virtual void wake(const TaskPtr& task) = 0;
    /// Sets the next run of a waiting task to `delay` from now.
    virtual void snooze(const TaskPtr& task, TaskTime delay) = 0;
    /// Ends the task. Returns when its function is not running and will not run again. Called from
    /// inside the task, it returns at once, and the current run is the last one.
    virtual void cancel(const TaskPtr& task) = 0;
    [[nodiscard]] virtual std::vector<TaskStats> stats() const = 0;
    /// Time of the executor's clock.
    [[nodiscard]] virtual TaskTime now() const = 0;
};

}  // namespace kv
