// Contention: how often, and how long, threads of this process waited for a lock that all of them
// want. STAT contention.
//
// A lock that is free costs nothing more: only who has to wait counts. Counters are the process's,
// not a bucket's: what they tell is whether a lock is worth splitting. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace kv {

/// How often something took a while, and how long in all. Relaxed.
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

/// Each has a line of the cache.
struct Contention {
    WaitCounter hashLocks;      ///< the locks of hash tables' lines
    WaitCounter logLocks;       ///< checkpoint managers' queue locks, by mutations
    WaitCounter listenerLocks;  ///< who tells DCP producers of a mutation
    WaitCounter stats;          ///< not a wait: groups of STAT, and how long they took

    void reset() noexcept {
        for (WaitCounter* counter : {&hashLocks, &logLocks, &listenerLocks, &stats}) {
            counter->reset();
        }
    }
};

inline constinit Contention contention;

/// Takes a lock that somebody has, and counts the wait.
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
