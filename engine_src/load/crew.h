#pragma once

// The threads of a load tool: started together, in step between phases, ended together.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "load/clock.h"

namespace kv::load {

/// CPU time of one thread.
struct CpuTime {
    double user = 0;  // seconds
    double system = 0;
    double total() const noexcept { return user + system; }
    CpuTime operator-(const CpuTime& other) const noexcept {
        return {user - other.user, system - other.system};
    }
};
/// Of the calling thread, so far.
CpuTime threadCpu();

/// How a run ended.
struct CrewResult {
    bool interrupted = false;  // SIGINT or SIGTERM
    std::string failure;       // what the first failing thread said; empty if none failed
};

class Crew {
  public:
    explicit Crew(std::size_t threads) : threads_(threads) {}

    std::size_t threads() const noexcept { return threads_; }
    const std::atomic<bool>& stop() const noexcept { return stop_; }

    /// Called by each thread: returns when all still running have called it, to all the same
    /// instant. Throws nothing; after stop() phases should be left at once.
    Nanos inStep();

    /// Runs body(0) .. body(threads - 1), each on its own thread, and waits for them; calls
    /// onTick() about once a second meanwhile. SIGINT and SIGTERM, which must be blocked in the
    /// calling thread (blockSignals), set stop(); so does an exception in a body.
    CrewResult run(const std::function<void(std::size_t)>& body,
                   const std::function<void()>& onTick);

    /// To be called in main() before anything starts threads.
    static void blockSignals();

  private:
    void leave();

    std::size_t threads_;
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t running_ = 0;
    std::size_t waiting_ = 0;
    std::size_t round_ = 0;
    Nanos roundStart_ = 0;
};

}  // namespace kv::load
