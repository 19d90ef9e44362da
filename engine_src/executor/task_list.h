// TaskList: the tasks of one pool and the times of their next runs. No locking, no clock, no
// allocation after add(): both executors build on it. A pool has tens of tasks, so a scan for the
// next one costs less than the nodes of a heap.
#pragma once

#include <vector>

#include "executor/task.h"

namespace kv {

class TaskList {
  public:
    void add(TaskPtr task, TaskTime wakeAt);
    /// Returns the time of the earliest waiting task; kNever if no task is scheduled.
    [[nodiscard]] TaskTime nextWake() const;
    /// Marks the earliest due task as running and returns it; null if none is due.
    TaskPtr start(TaskTime now);
    /// Runs the function of a started task. The caller holds no lock.
    static TaskResult call(Task& task);
    /// Call it after the run: the task waits again or ends. Returns true if it ended.
    bool finish(const TaskPtr& task, TaskResult result, TaskTime now);
    /// Brings the next run forward to `when`. Returns true if that may make the task the earliest
    /// one.
    bool wake(Task& task, TaskTime when);
    /// Moves the next run to `when`; a current run decides for itself.
    static void snooze(Task& task, TaskTime when);
    /// Ends the task: at once if it waits, otherwise after its run. Returns true if it has ended.
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
