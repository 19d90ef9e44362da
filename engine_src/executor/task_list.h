// TaskList: the tasks of one pool and when each is to run. No locking, no clock, no allocation
// after add(): both executors build on it. A pool has tens of tasks, so choosing the next by a scan
// costs less than a heap's nodes would.
#pragma once

#include <vector>

#include "executor/task.h"

namespace kv {

class TaskList {
  public:
    void add(TaskPtr task, TaskTime wakeAt);
    /// Time of the earliest waiting task; kNever when none is due ever.
    [[nodiscard]] TaskTime nextWake() const;
    /// Marks the earliest task that is due as running and returns it; null when none is due.
    TaskPtr start(TaskTime now);
    /// Runs the function of a started task. The caller holds no lock.
    static TaskResult call(Task& task);
    /// After the run: waits again, or ends. True when the task ended.
    bool finish(const TaskPtr& task, TaskResult result, TaskTime now);
    /// Brings the next run forward to `when`. True when that may make the task the earliest one.
    bool wake(Task& task, TaskTime when);
    /// Puts the next run off (or forward) to `when`; a run in progress decides itself.
    static void snooze(Task& task, TaskTime when);
    /// Ends the task, at once when it waits, else after its run. True when it has ended.
    bool cancel(const TaskPtr& task);
    [[nodiscard]] static bool hasEnded(const Task& task) {
        return task.state_ == Task::State::Dead;
    }
    [[nodiscard]] const std::vector<TaskPtr>& tasks() const { return tasks_; }
    void describe(std::vector<TaskStats>& out) const;

  private:
    void remove(const TaskPtr& task);
    std::vector<TaskPtr> tasks_;
};

}  // namespace kv
