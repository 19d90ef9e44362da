#include "executor/task_list.h"

#include <algorithm>
#include <exception>

#include "logging/log.h"

namespace kv {

namespace {

constexpr auto kRetryDelay = std::chrono::milliseconds(100);

TaskResult callOrRetry(const std::string& name, const std::function<TaskResult()>& function) {
    try {
        return function();
    } catch (const std::exception& error) {
        log::warn("task {}: {}; tried again", name, error.what());
        return TaskResult::after(kRetryDelay);
    }
}

}  // namespace

void TaskList::add(TaskPtr task, TaskTime wakeAt) {
    task->wakeAt_ = wakeAt;
    tasks_.push_back(std::move(task));
}

TaskTime TaskList::nextWake() const {
    TaskTime earliest = kNever;
    for (const TaskPtr& task : tasks_) {
        if (task->state_ == Task::State::Waiting) {
            earliest = std::min(earliest, task->wakeAt_);
        }
    }
    return earliest;
}

TaskPtr TaskList::start(TaskTime now) {
    const TaskPtr* best = nullptr;
    for (const TaskPtr& task : tasks_) {
        if (task->state_ == Task::State::Waiting && task->wakeAt_ <= now &&
            (best == nullptr || task->wakeAt_ < (*best)->wakeAt_)) {
            best = &task;
        }
    }
    if (best == nullptr) {
        return nullptr;
    }
    (*best)->state_ = Task::State::Running;
    (*best)->woken_ = false;
    return *best;
}

TaskResult TaskList::call(Task& task) {
    const auto begin = std::chrono::steady_clock::now();
    const TaskResult result = callOrRetry(task.name_, task.function_);
    const int64_t ns =
            std::chrono::duration_cast<TaskTime>(std::chrono::steady_clock::now() - begin).count();
    // One thread runs a task at a time, so plain stores suffice.
    task.runs_.store(task.runs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    task.totalNs_.store(task.totalNs_.load(std::memory_order_relaxed) + ns,
                        std::memory_order_relaxed);
    task.longestNs_.store(std::max(task.longestNs_.load(std::memory_order_relaxed), ns),
                          std::memory_order_relaxed);
    return result;
}

bool TaskList::finish(const TaskPtr& task, TaskResult result, TaskTime now) {
    if (task->cancelled_ || result.isDone()) {
        remove(task);
        return true;
    }
    task->state_ = Task::State::Waiting;
    if (task->woken_) {
        task->wakeAt_ = now;
    } else {
        task->wakeAt_ = result.delay() == kNever ? kNever : now + result.delay();
    }
    return false;
}

bool TaskList::wake(Task& task, TaskTime when) {
    if (task.state_ == Task::State::Running) {
        task.woken_ = true;
        return false;
    }
    if (task.state_ == Task::State::Dead || task.wakeAt_ <= when) {
        return false;
    }
    task.wakeAt_ = when;
    return true;
}

void TaskList::snooze(Task& task, TaskTime when) {
    if (task.state_ == Task::State::Waiting) {
        task.wakeAt_ = when;
    }
}

bool TaskList::cancel(const TaskPtr& task) {
    task->cancelled_ = true;
    if (task->state_ == Task::State::Waiting) {
        remove(task);
    }
    return task->state_ == Task::State::Dead;
}

void TaskList::remove(const TaskPtr& task) {
    task->state_ = Task::State::Dead;
    // The function's captures are freed now, not when the last TaskPtr is dropped.
    task->function_ = nullptr;
    // The argument may be an element of the list.
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const TaskPtr keep = task;
    std::erase(tasks_, keep);
}

void TaskList::describe(std::vector<TaskStats>& out) const {
    for (const TaskPtr& task : tasks_) {
        out.push_back({.name = task->name(),
                       .pool = task->pool(),
                       .state = task->state_ == Task::State::Running ? "running" : "waiting",
                       .runs = task->runs(),
                       .totalTime = task->totalTime(),
                       .longestTime = task->longestTime()});
    }
}

}  // namespace kv
