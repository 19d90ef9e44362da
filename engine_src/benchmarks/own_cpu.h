// A CPU for each thread of a benchmark.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>

namespace kv::bench {

/// Returns the number of CPUs that the calling thread may run on, at least one.
inline int usableCpus() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    return ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? std::max(1, CPU_COUNT(&usable))
                                                               : 1;
}

/// OwnCpu: while it lives, the calling thread runs on one CPU: the `thread`-th that it may use,
/// modulo the number of CPUs. Nothing changes for one thread.
///
/// The kernel leaves threads that were started together on one CPU for tens of milliseconds, longer
/// than a slice, and threads on one CPU do not contend: the statistics update by two threads took
/// 15.7 ns in slices of 20 ms, 22.8 ns in slices of 100 ms, and 24.7 ns without slices. Without
/// pinning, more threads than CPUs would pile up in the same way; with the modulo each CPU has its
/// share of them, and none migrates.
class OwnCpu {
  public:
    OwnCpu(int thread, int threads) {
        if (threads < 2 || ::sched_getaffinity(0, sizeof before_, &before_) != 0 ||
            CPU_COUNT(&before_) < 2) {
            return;
        }
        size_t cpu = 0;
        for (int skip = thread % CPU_COUNT(&before_); !CPU_ISSET(cpu, &before_) || skip-- > 0;) {
            ++cpu;
        }
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        pinned_ = ::sched_setaffinity(0, sizeof own, &own) == 0;
    }
    OwnCpu(const OwnCpu&) = delete;
    OwnCpu& operator=(const OwnCpu&) = delete;
    /// The library's own thread is the first of each benchmark.
    ~OwnCpu() {
        if (pinned_) {
            ::sched_setaffinity(0, sizeof before_, &before_);
        }
    }

  private:
    cpu_set_t before_{};
    bool pinned_ = false;
};

}  // namespace kv::bench
