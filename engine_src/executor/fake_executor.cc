#include "executor/fake_executor.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace kv {

TaskPtr FakeExecutor::schedule(std::string name, TaskPool pool, TaskTime delay,
                               std::function<TaskResult()> function) {
    auto task = std::make_shared<Task>(std::move(name), pool, std::move(function));
    const std::lock_guard lock(mutex_);
    list_.add(task, delay == kNever ? kNever : now_ + delay);
    return task;
}

void FakeExecutor::wake(const TaskPtr& task) {
    const std::lock_guard lock(mutex_);
    list_.wake(*task, now_);
}

void FakeExecutor::snooze(const TaskPtr& task, TaskTime delay) {
    const std::lock_guard lock(mutex_);
    TaskList::snooze(*task, delay == kNever ? kNever : now_ + delay);
}

void FakeExecutor::cancel(const TaskPtr& task) {
    const std::lock_guard lock(mutex_);
    list_.cancel(task);
}

std::vector<TaskStats> FakeExecutor::stats() const {
    std::vector<TaskStats> result;
    const std::lock_guard lock(mutex_);
    list_.describe(result);
    return result;
}

void FakeExecutor::run(const TaskPtr& task) {
    const TaskResult result = TaskList::call(*task);
    const std::lock_guard lock(mutex_);
    list_.finish(task, result, now_);
}

std::string FakeExecutor::runNext() {
    TaskPtr task;
    {
        const std::lock_guard lock(mutex_);
        task = list_.start(now_);
    }
    if (task == nullptr) {
        return {};
    }
    run(task);
    return task->name();
}

size_t FakeExecutor::runDue(size_t limit) {
    size_t runs = 0;
    while (!runNext().empty()) {
        if (++runs > limit) {
            throw std::logic_error("FakeExecutor: a task never comes to rest");
        }
    }
    return runs;
}

void FakeExecutor::advance(TaskTime by) {
    const TaskTime end = now_ + by;
    runDue();
    while (list_.nextWake() <= end) {
        now_ = std::max(now_, list_.nextWake());
        runDue();
    }
    now_ = end;
}

void FakeExecutor::runTask(std::string_view name) {
    const auto& tasks = list_.tasks();
    const auto found = std::find_if(tasks.begin(), tasks.end(),
                                    [name](const TaskPtr& task) { return task->name() == name; });
    if (found == tasks.end()) {
        throw std::logic_error("FakeExecutor: no task named " + std::string(name));
    }
    // start() takes it out of the list.
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const TaskPtr task = *found;
    // Earlier than any other task, so that start() chooses this one.
    list_.wake(*task, TaskTime{-1});
    if (list_.start(now_) != task) {
        throw std::logic_error("FakeExecutor: task " + std::string(name) + " cannot run now");
    }
    run(task);
}

}  // namespace kv
