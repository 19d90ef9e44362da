// Build switch ENGINE_PLANTED: a known fault, for tests of perfrunner itself: is a difference found
// that is there, and of what size? No experiment compares such a build.
//
//   none     nothing, not even an instruction
//   burn1    13 dependent steps an operation: 0.8 % of the engine's CPU time and 0.5 % of the
//            throughput at batches of 100, 256 B, 80 % SET (docs/statistics.md)
//   burn2    26 steps: 1.4 and 1.0 %
//   stall    a front-end thread sleeps for 1 ms every 2 s
//   bytes16  16 bytes more an item (planted_item.h)
//   leak     32 bytes are lost at every 1000th SET of a front-end thread
//
// Front-end threads call turn() once for each run of requests, operation() before each request and
// stored() at each SET; what a fault has to remember is static.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>

namespace kv::options {

struct NoFault {
    static constexpr std::string_view kName = "none";
    static void turn() {}
    /// `object` again, which the request is about to be executed on.
    template <class T>
    static T& operation(T& object, uint64_t) {
        return object;
    }
    static void stored() {}
};

/// Steps of a multiplication and an addition that each wait for the one before: some 4 cycles a
/// step and no memory.
inline uint64_t burn(uint64_t seed, unsigned steps) {
    uint64_t x = seed;
    for (unsigned i = 0; i < steps; ++i) {
        x = x * 0x9e3779b97f4a7c15u + 1;
        asm volatile("" : "+r"(x));  // each step is made, one by one
    }
    return x;
}

template <unsigned Steps>
struct Burn : NoFault {
    static constexpr unsigned kSteps = Steps;
    /// Begins when `seed` is known and gives an address that needs the result: out-of-order
    /// execution cannot do the steps beside the operation, only beside the end of the one before.
    template <class T>
    static T& operation(T& object, uint64_t seed) {
        uint64_t none = 0;
        asm volatile("" : "+r"(none));  // the compiler may not know that it is 0
        return *reinterpret_cast<T*>(reinterpret_cast<char*>(&object) + (burn(seed, Steps) & none));
    }
};

struct Burn1 : Burn<13> {
    static constexpr std::string_view kName = "burn1";
};

struct Burn2 : Burn<26> {
    static constexpr std::string_view kName = "burn2";
};

/// What is due once in a period, for whoever asks first.
class Periodic {
  public:
    explicit constexpr Periodic(std::chrono::nanoseconds period) : period_(period.count()) {}

    /// `now` on any clock that starts at 0 or later. Any thread.
    bool due(std::chrono::nanoseconds now) {
        int64_t next = next_.load(std::memory_order_relaxed);
        return now.count() >= next && next_.compare_exchange_strong(next, now.count() + period_,
                                                                    std::memory_order_relaxed);
    }

  private:
    int64_t period_;
    std::atomic<int64_t> next_{0};
};

struct Stall : NoFault {
    static constexpr std::string_view kName = "stall";
    static constexpr std::chrono::milliseconds kLength{1};
    static constexpr std::chrono::seconds kPeriod{2};

    static void turn() {
        timespec now{};  // the coarse clock: milliseconds exact and some 5 ns a reading
        ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        stallIfDue(when_, std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
    }
    static bool stallIfDue(Periodic& when, std::chrono::nanoseconds now) {
        const bool due = when.due(now);
        if (due) {
            std::this_thread::sleep_for(kLength);
        }
        return due;
    }

  private:
    static inline Periodic when_{kPeriod};
};

struct BytesPerItem : NoFault {
    static constexpr std::string_view kName = "bytes16";
};

struct Leak : NoFault {
    static constexpr std::string_view kName = "leak";
    static constexpr unsigned kEvery = 1000;
    static constexpr size_t kBytes = 32;

    static void stored() {
        thread_local unsigned sets = 0;
        if (++sets == kEvery) {
            sets = 0;
            lose();
        }
    }
    /// Blocks lost so far. Not while others call stored().
    static size_t lost() {
        size_t count = 0;
        for (const Block* block = last_; block != nullptr; block = block->before) {
            ++count;
        }
        return count;
    }

  private:
    /// Each leads to the one before: a leak that leak checkers take for data in use.
    struct Block {
        Block* before;
        std::array<std::byte, kBytes - sizeof(void*)> rest;
    };
    static_assert(sizeof(Block) == kBytes);

    static void lose() {
        Block* block = std::make_unique<Block>().release();
        block->before = last_.load(std::memory_order_relaxed);
        while (!last_.compare_exchange_weak(block->before, block, std::memory_order_release)) {
        }
    }

    static inline std::atomic<Block*> last_{nullptr};
};

}  // namespace kv::options
