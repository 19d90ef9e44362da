// Task: a named piece of background work that an Executor runs repeatedly, never twice at the same
// time.
//
// Ownership: shared by the executor and the code that scheduled it (TaskPtr). Errors: a function
// that throws (out of memory, a store that cannot be read) is logged and run again a little later.
// Threads: the public functions may be called from any thread; all other state belongs to the
// executor that runs the task.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace kv {

/// Monotonic time since the executor's own epoch.
using TaskTime = std::chrono::nanoseconds;
constexpr TaskTime kNever = TaskTime::max();

enum class TaskPool : uint8_t {
    Writer,  ///< writes to disk
    AuxIO,   ///< reads from disk and other slow work
    NonIO,   ///< memory only
};
constexpr size_t kTaskPools = 3;

constexpr std::string_view toString(TaskPool pool) {
    return pool == TaskPool::Writer ? "writer" : pool == TaskPool::AuxIO ? "auxio" : "nonio";
}

/// The request of a task after a run. A wake() that came during the run brings the next run forward
/// to now.
class TaskResult {
  public:
    static TaskResult again() { return TaskResult(TaskTime::zero()); }
    static TaskResult after(TaskTime delay) { return TaskResult(delay); }
    static TaskResult untilWoken() { return TaskResult(kNever); }
    static TaskResult done() { return TaskResult(TaskTime{-1}); }

    [[nodiscard]] bool isDone() const { return delay_ < TaskTime::zero(); }
    [[nodiscard]] TaskTime delay() const { return delay_; }

  private:
    explicit TaskResult(TaskTime delay) : delay_(delay) {}
    TaskTime delay_;
};

class Task {
  public:
    Task(std::string name, TaskPool pool, std::function<TaskResult()> function)
        : name_(std::move(name)), pool_(pool), function_(std::move(function)) {}
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() = default;

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] TaskPool pool() const { return pool_; }
    [[nodiscard]] uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }
    /// Time spent in the function, all runs together and the longest one.
    [[nodiscard]] TaskTime totalTime() const {
        return TaskTime(totalNs_.load(std::memory_order_relaxed));
    }
    [[nodiscard]] TaskTime longestTime() const {
        return TaskTime(longestNs_.load(std::memory_order_relaxed));
    }

  private:
    friend class TaskList;
    enum class State : uint8_t { Waiting, Running, Dead };

    const std::string name_;
    const TaskPool pool_;
    std::function<TaskResult()> function_;
    State state_{State::Waiting};
    bool woken_{false};  ///< wake() came while it ran
    bool cancelled_{false};
    TaskTime wakeAt_{kNever};
    std::atomic<uint64_t> runs_{0};
    std::atomic<int64_t> totalNs_{0};
    std::atomic<int64_t> longestNs_{0};
};

using TaskPtr = std::shared_ptr<Task>;

/// One line of STAT tasks.
struct TaskStats {
    std::string name;
    TaskPool pool{TaskPool::NonIO};
    std::string_view state;  ///< "waiting" or "running"
    uint64_t runs{0};
    TaskTime totalTime{};
    TaskTime longestTime{};
};

}  // namespace kv
