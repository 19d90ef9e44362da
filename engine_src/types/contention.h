// Contention: how often, and for how long, threads of this process waited for a contended lock.
// Shown by STAT contention.
//
// A free lock costs nothing more: only threads that wait count. The counters belong to the process,
// not to a bucket: they show whether a lock is worth splitting. Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace kv {

/// Number and total duration of waits. Relaxed.
struct alignas(64) WaitCounter {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> nanos{0};

    void add(std::chrono::nanoseconds time) noexcept {
        count.fetch_add(1, std::memory_order_relaxed);
        nanos.fetch_add(static_cast<uint64_t>(time.count()), std::memory_order_relaxed);
    }
    void reset() noexcept {
        count.store(0, std::memory_order_relaxed);
        nanos.store(0, std::memory_order_relaxed);
    }
};

/// Each counter has a separate cache line.
struct Contention {
    WaitCounter hashLocks;      ///< the locks of hash tables' lines
    WaitCounter logLocks;       ///< checkpoint managers' queue locks, by mutations
    WaitCounter listenerLocks;  ///< notifications of DCP producers about a mutation
    WaitCounter stats;          ///< not a wait: groups of STAT and their duration

    void reset() noexcept {
        for (WaitCounter* counter : {&hashLocks, &logLocks, &listenerLocks, &stats}) {
            counter->reset();
        }
    }
};

inline constinit Contention contention;

/// Takes a lock that another thread holds, and counts the wait.
template <class Lock>
[[gnu::cold, gnu::noinline]] Lock lockAndCount(typename Lock::mutex_type& mutex,
                                               WaitCounter& counter) {
    const auto start = std::chrono::steady_clock::now();
    Lock lock(mutex);
    counter.add(std::chrono::steady_clock::now() - start);
    return lock;
}

/// Takes a lock (std::unique_lock<Mutex>, std::shared_lock<Mutex>), and counts if it has to wait.
template <class Lock>
Lock lockCounted(typename Lock::mutex_type& mutex, WaitCounter& counter) {
    Lock lock(mutex, std::try_to_lock);
    if (lock.owns_lock()) [[likely]] {
        return lock;
    }
    return lockAndCount<Lock>(mutex, counter);
}

}  // namespace kv
