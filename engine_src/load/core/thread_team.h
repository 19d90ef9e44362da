#pragma once

// The threads of a load tool: started together, in step between phases, and ended together.

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "load/core/clock.h"

namespace kv::load {

/// CPU time of one thread.
struct CpuTime {
    double user = 0;  // seconds
    double system = 0;
    double total() const noexcept { return user + system; }
    CpuTime operator-(const CpuTime& other) const noexcept {
        return {user - other.user, system - other.system};
    }
    CpuTime& operator+=(const CpuTime& other) noexcept {
        user += other.user;
        system += other.system;
        return *this;
    }
};
/// Returns the CPU time of the calling thread so far.
CpuTime threadCpu();

/// Returns SIGINT and SIGTERM, which end a tool.
sigset_t endSignals();

/// How a run ended.
struct RunResult {
    bool interrupted = false;  // SIGINT or SIGTERM
    std::string failure;       // the error of the first failing thread; empty if none failed
    std::exception_ptr cause;  // of that failure
};

class ThreadTeam {
  public:
    explicit ThreadTeam(std::size_t threads) : threads_(threads) {}

    std::size_t threads() const noexcept { return threads_; }
    const std::atomic<bool>& stop() const noexcept { return stop_; }

    /// Waits until all running threads have called it, and returns the same instant to all. Does
    /// not throw; after stop() phases should be left at once.
    Nanos inStep() {
        return inStep([] {});
    }
    /// As above. The last thread to call runs `last` before the others continue, so its data needs
    /// no lock. An exception of `last` leaves through that thread only.
    Nanos inStep(const std::function<void()>& last);

    /// Runs body(0) .. body(threads - 1), each on its own thread, and waits for them. Calls
    /// onTick() about once a second during that time. SIGINT and SIGTERM, which must be blocked in
    /// the calling thread (blockSignals), set stop(); an exception in a body does as well.
    RunResult run(const std::function<void(std::size_t)>& body,
                  const std::function<void()>& onTick);

    /// Call it in main() before anything starts threads.
    static void blockSignals();

  private:
    void leave();
    void release();  // releases the waiting threads; mutex_ is held

    std::size_t threads_;
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable step_;   // all have arrived
    std::condition_variable ended_;  // a thread has left
    std::size_t running_ = 0;
    std::size_t waiting_ = 0;
    std::size_t round_ = 0;
    Nanos roundStart_ = 0;
};

}  // namespace kv::load
