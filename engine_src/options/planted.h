// Build switch ENGINE_PLANTED: a known fault, for tests of perfrunner itself: is a difference found
// that is there, and of what size? No experiment compares such a build.
//
//   none     nothing, not even an instruction
//   burn     16 dependent steps an operation: a known number of instructions
//   share1   1 % of a front-end thread's time, whatever that is spent on: by construction the
//            throughput of a closed loop falls by 1/1.01
//   share2   2 %
//   stall    a front-end thread sleeps for 1 ms every 2 s
//   bytes16  16 bytes more an item (planted_item.h)
//   leak     32 bytes are lost at every 1000th SET of a front-end thread
//
// A front-end thread has a Turn for each run of requests, tells it of each operation(), and calls
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
    /// Lives as long as one run of requests.
    class Turn {
      public:
        void operation() {}
    };
    static void stored() {}
};

/// Steps of a multiplication and an addition that each wait for the one before: some 4 cycles a
/// step and no memory.
inline uint64_t burn(uint64_t seed, uint64_t steps) {
    uint64_t x = seed;
    for (uint64_t i = 0; i < steps; ++i) {
        x = x * 0x9e3779b97f4a7c15u + 1;
        asm volatile("" : "+r"(x));  // each step is made, one by one
    }
    return x;
}

template <unsigned Steps>
struct Burn : NoFault {
    static constexpr unsigned kSteps = Steps;
    /// All steps in one piece at the end: out-of-order execution does a few steps beside the
    /// operation before them, so that steps spread over the operations would cost next to nothing.
    class Turn {
      public:
        Turn() = default;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { burn(operations_, operations_ * Steps); }
        void operation() { ++operations_; }

      private:
        uint64_t operations_ = 0;
    };
};

struct Burn16 : Burn<16> {
    static constexpr std::string_view kName = "burn";
};

/// How long a thread takes from the end of one run of requests to the end of the next: executing,
/// answering, and waiting for a client that has one batch under way.
class Cycle {
  public:
    /// Beyond that the client was out of turn: the cycle before stands for it.
    static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(1);

    /// The cycle that ends `now`.
    std::chrono::nanoseconds end(std::chrono::nanoseconds now) {
        if (const auto length = now - begin_; length <= kLongest) {
            length_ = length;
        }
        return length_;
    }
    void begin(std::chrono::nanoseconds now) { begin_ = now; }

  private:
    std::chrono::nanoseconds begin_ = -kLongest;
    std::chrono::nanoseconds length_{0};
};

/// Each cycle is made longer by so much of itself, however noisy the machine. What a client lost by
/// it was measured, and is a little more (docs/statistics.md).
template <unsigned PerMille>
struct Share : NoFault {
    static constexpr unsigned kPerMille = PerMille;
    class Turn : public NoFault::Turn {
      public:
        Turn() = default;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() {
            thread_local Cycle cycle;
            auto now = clock();
            const auto until = now + cycle.end(now) * PerMille / 1000;
            while (now < until) {
                now = clock();
            }
            cycle.begin(now);
        }

      private:
        static std::chrono::nanoseconds clock() {
            return std::chrono::steady_clock::now().time_since_epoch();
        }
    };
};

struct Share1 : Share<10> {
    static constexpr std::string_view kName = "share1";
};

struct Share2 : Share<20> {
    static constexpr std::string_view kName = "share2";
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

    class Turn : public NoFault::Turn {
      public:
        Turn() {
            timespec now{};  // the coarse clock: milliseconds exact and some 5 ns a reading
            ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
            stallIfDue(when_,
                       std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
        }
    };
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
