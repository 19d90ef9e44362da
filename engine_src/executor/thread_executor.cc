#include "executor/thread_executor.h"

#include <pthread.h>

#include <utility>

namespace kv {

namespace {

TaskTime steadyNow() {
    return std::chrono::duration_cast<TaskTime>(
            std::chrono::steady_clock::now().time_since_epoch());
}

TaskTime later(TaskTime delay) {
    return delay == kNever ? kNever : steadyNow() + delay;
}

/// The task whose function this thread is in, so that cancel() from inside does not wait for
/// itself.
thread_local const Task* runningTask = nullptr;

}  // namespace

ThreadExecutor::ThreadExecutor(const ThreadExecutorConfig& config) {
    const std::array<unsigned, kTaskPools> counts{config.writers, config.auxIo, config.nonIo};
    for (size_t index = 0; index < kTaskPools; ++index) {
        Pool& pool = pools_[index];
        for (unsigned number = 0; number < counts[index]; ++number) {
            pool.threads.emplace_back([this, &pool] { work(pool); });
            const std::string name = "kv:" + std::string(toString(static_cast<TaskPool>(index)));
            pthread_setname_np(pool.threads.back().native_handle(), name.c_str());
        }
    }
}

ThreadExecutor::~ThreadExecutor() {
    for (Pool& pool : pools_) {
        {
            const std::lock_guard lock(pool.mutex);
            pool.stop = true;
        }
        pool.work.notify_all();
    }
    for (Pool& pool : pools_) {
        for (std::thread& thread : pool.threads) {
            thread.join();
        }
    }
}

TaskPtr ThreadExecutor::schedule(std::string name, TaskPool pool, TaskTime delay,
                                 std::function<TaskResult()> function) {
    auto task = std::make_shared<Task>(std::move(name), pool, std::move(function));
    Pool& target = poolOf(*task);
    {
        const std::lock_guard lock(target.mutex);
        target.list.add(task, later(delay));
    }
    target.work.notify_one();
    return task;
}

void ThreadExecutor::wake(const TaskPtr& task) {
    Pool& pool = poolOf(*task);
    bool notify = false;
    {
        const std::lock_guard lock(pool.mutex);
        notify = pool.list.wake(*task, steadyNow());
    }
    if (notify) {
        pool.work.notify_one();
    }
}

void ThreadExecutor::snooze(const TaskPtr& task, TaskTime delay) {
    Pool& pool = poolOf(*task);
    {
        const std::lock_guard lock(pool.mutex);
        TaskList::snooze(*task, later(delay));
    }
    pool.work.notify_one();
}

void ThreadExecutor::cancel(const TaskPtr& task) {
    Pool& pool = poolOf(*task);
    std::unique_lock lock(pool.mutex);
    if (pool.list.cancel(task) || runningTask == task.get()) {
        return;
    }
    pool.ended.wait(lock, [&task] { return TaskList::hasEnded(*task); });
}

void ThreadExecutor::work(Pool& pool) {
    std::unique_lock lock(pool.mutex);
    while (!pool.stop) {
        const TaskPtr task = pool.list.start(steadyNow());
        if (task == nullptr) {
            const TaskTime wakeAt = pool.list.nextWake();
            if (wakeAt == kNever) {
                pool.work.wait(lock);
            } else {
                pool.work.wait_until(lock, std::chrono::steady_clock::time_point(wakeAt));
            }
            continue;
        }
        lock.unlock();
        runningTask = task.get();
        const TaskResult result = TaskList::call(*task);
        runningTask = nullptr;
        lock.lock();
        if (pool.list.finish(task, result, steadyNow())) {
            pool.ended.notify_all();
        }
    }
}

TaskTime ThreadExecutor::now() const {
    return steadyNow();
}

std::vector<TaskStats> ThreadExecutor::stats() const {
    std::vector<TaskStats> result;
    for (const Pool& pool : pools_) {
        const std::lock_guard lock(pool.mutex);
        pool.list.describe(result);
    }
    return result;
}

}  // namespace kv
