// Build switch ENGINE_INJECTED: a known fault for tests of perfrunner itself: does it find a
// difference that exists, and with which size? No experiment compares such a build.
//
//   none     nothing, not even an instruction
//   burn     16 dependent steps per operation: a known number of instructions
//   share1   1 % of a front-end thread's time, whatever that is spent on: by construction the
//            throughput of a closed loop falls by 1/1.01
//   share2   2 %
//   stall    a front-end thread sleeps for 1 ms every 2 s
//   bytes16  16 more bytes per item (injected_item.h)
//   leak     32 bytes are lost at every 1000th SET of a front-end thread
//
// Faults whose size KV_INJECTED_PERMILLE sets, 20 by default, in thousandths of time:
//
//   share       as share1, on the front-end thread
//   background  a thread that burns this share of all time, every millisecond, with or without load
//   burst       a thread that burns, every 100 ms, this share of the front-end threads' time
//   burst5s     the same every 5 s
//   footprint   front-end threads walk through 1 MiB of memory for this share of their time
//   lock        a thread that burns it every millisecond, holding a lock that each run of requests
//               needs
//
// All of these count the CPU time that they burn (Burnt), which STAT shows.
//
// A front-end thread has a Turn for each run of requests, reports each operation() to it, and calls
// stored() at each SET; the state of a fault is static.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "options/injected_work.h"

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

/// Steps of a multiplication and an addition that each wait for the one before: about 4 cycles per
/// step and no memory.
inline uint64_t burn(uint64_t seed, uint64_t steps) {
    uint64_t x = seed;
    for (uint64_t i = 0; i < steps; ++i) {
        x = x * 0x9e3779b97f4a7c15u + 1;
        asm volatile("" : "+r"(x));  // each step is executed separately
    }
    return x;
}

template <unsigned Steps>
struct Burn : NoFault {
    static constexpr unsigned kSteps = Steps;
    /// All steps in one piece at the end: out-of-order execution overlaps a few steps with the
    /// operation before them, so steps that are spread over the operations would cost next to
    /// nothing.
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

/// Called at the end of a run of requests: makes the calling thread's cycle longer.
inline void lengthenCycle(unsigned perMille) {
    thread_local Cycle cycle;
    const auto begin = steadyTime();
    auto now = begin;
    const auto until = begin + cycle.end(begin) * perMille / 1000;
    while (now < until) {
        now = steadyTime();
    }
    Burnt::add(now - begin);
    cycle.begin(now);
}

/// The base of the faults that count the CPU time that they burn.
struct CountedFault : NoFault {
    static std::chrono::nanoseconds burnt() { return Burnt::total(); }
};

/// Makes each cycle longer by this share of itself, on a noisy machine as well. The measured loss
/// of a client is a little more (docs/explanation/accuracy.md).
template <unsigned PerMille>
struct Share : CountedFault {
    static constexpr unsigned kPerMille = PerMille;
    class Turn : public NoFault::Turn {
      public:
        Turn() = default;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { lengthenCycle(PerMille); }
    };
};

struct Share1 : Share<10> {
    static constexpr std::string_view kName = "share1";
};

struct Share2 : Share<20> {
    static constexpr std::string_view kName = "share2";
};

struct SizedShare : CountedFault {
    static constexpr std::string_view kName = "share";
    class Turn : public NoFault::Turn {
      public:
        Turn() = default;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { lengthenCycle(faultSize()); }
    };
};

/// Burns one of the thread's own dependent steps at a time.
inline void burnSome() {
    burn(1, 200);
}

struct Background : CountedFault {
    static constexpr std::string_view kName = "background";
    static constexpr std::chrono::milliseconds kPeriod{1};
    class Turn : public NoFault::Turn {
      public:
        Turn() {
            static const Ticker kTicker(kPeriod, [](std::chrono::nanoseconds elapsed) {
                burnFor(elapsed * faultSize() / 1000, burnSome);
            });
        }
    };
};

template <unsigned PeriodMs>
struct Burst : CountedFault {
    class Turn : public NoFault::Turn {
      public:
        Turn() = default;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() {
            static Debt debt;
            static const Ticker kTicker(std::chrono::milliseconds{PeriodMs},
                                        [](auto) { burnFor(debt.take(), burnSome); });
            debt.addCycle(faultSize());
        }
    };
};

struct Burst100ms : Burst<100> {
    static constexpr std::string_view kName = "burst";
};

struct Burst5s : Burst<5000> {
    static constexpr std::string_view kName = "burst5s";
};

/// Walks through separate memory, so that the thread's data is evicted from the caches.
struct Footprint : CountedFault {
    static constexpr std::string_view kName = "footprint";
    static constexpr size_t kBytes = size_t{1} << 20;
    static constexpr size_t kLine = 64;
    static constexpr size_t kLinesAtOnce = 16;

    class Turn : public NoFault::Turn {
      public:
        Turn() = default;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() {
            thread_local Debt debt;
            thread_local Walk walk;
            debt.addCycle(faultSize());
            burnFor(debt.take(), [] { walk.step(); });
        }
    };

  private:
    class Walk {
      public:
        void step() {
            for (size_t line = 0; line < kLinesAtOnce; ++line) {
                auto& byte = memory_[at_];
                byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1);
                asm volatile("" : "+m"(byte));
                at_ = (at_ + kLine) % kBytes;
            }
        }

      private:
        std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
        size_t at_ = 0;
    };
};

struct Lock : CountedFault {
    static constexpr std::string_view kName = "lock";
    static constexpr std::chrono::milliseconds kPeriod{1};

    class Turn : public NoFault::Turn {
      public:
        Turn() : lock_(mutex()) {}
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() {
            static Debt debt;
            static const Ticker kTicker(kPeriod, [](auto) {
                const std::lock_guard held(mutex());
                burnFor(debt.take(), burnSome);
            });
            debt.addCycle(faultSize());
        }

      private:
        std::unique_lock<std::mutex> lock_;
    };

  private:
    static std::mutex& mutex() {
        static std::mutex mutex;
        return mutex;
    }
};

/// Work that is due once per period, for the first thread that asks.
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
            timespec now{};  // the coarse clock: exact to milliseconds, about 5 ns per reading
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
    /// Number of blocks lost so far. Not while others call stored().
    static size_t lost() {
        size_t count = 0;
        for (const Block* block = last_; block != nullptr; block = block->before) {
            ++count;
        }
        return count;
    }

  private:
    /// Each points to the one before, so leak checkers take the leak for data in use.
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
