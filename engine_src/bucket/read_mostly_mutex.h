// ReadMostlyMutex: a shared mutex whose readers do not touch each other's cache lines.
//
// A reader takes the stripe of its thread and a writer takes all of them. Reading costs the same
// with any number of CPUs; writing must be very rare. Use with std::shared_lock and
// std::unique_lock; a reader unlocks on the thread that locked. Not recursive.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <shared_mutex>

namespace kv {

class ReadMostlyMutex {
  public:
    static constexpr size_t kStripes = 32;

    void lock_shared() { mine().lock_shared(); }
    bool try_lock_shared() { return mine().try_lock_shared(); }
    void unlock_shared() { mine().unlock_shared(); }
    void lock() {
        for (Stripe& stripe : stripes_) {
            stripe.mutex.lock();
        }
    }
    void unlock() {
        for (Stripe& stripe : stripes_) {
            stripe.mutex.unlock();
        }
    }

  private:
    struct alignas(64) Stripe {
        std::shared_mutex mutex;
    };
    static_assert(sizeof(Stripe) == 64, "a reader's lock is one line of the cache");

    /// Threads are assigned to the stripes in rotation, so that few share one.
    static size_t stripeOfThread() {
        static constinit std::atomic<size_t> next{0};
        static thread_local size_t stripe = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
        return stripe;
    }
    std::shared_mutex& mine() { return stripes_[stripeOfThread()].mutex; }

    std::array<Stripe, kStripes> stripes_;
};

}  // namespace kv
