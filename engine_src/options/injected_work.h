// The common part of the injected faults of a chosen size (injected.h): the size, the work, the
// count of the work that measured results are compared with, and a thread to do it in the
// background.
#pragma once

#include <time.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace kv::options {

inline constexpr const char* kSizeVariable = "KV_INJECTED_PERMILLE";
inline constexpr unsigned kDefaultPerMille = 20;

/// Parses the size of a fault in thousandths of a front-end thread's time from the environment;
/// null means the default. Throws std::invalid_argument.
inline unsigned parsePerMille(const char* text) {
    if (text == nullptr) {
        return kDefaultPerMille;
    }
    const std::string_view given(text);
    unsigned perMille = 0;
    const auto parsed = std::from_chars(given.data(), given.data() + given.size(), perMille);
    if (parsed.ec != std::errc{} || parsed.ptr != given.data() + given.size() || perMille > 1000) {
        throw std::invalid_argument(std::string(kSizeVariable) + ": expected 0 to 1000, got \"" +
                                    text + "\"");
    }
    return perMille;
}

inline unsigned faultSize() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
    static const unsigned kPerMille = parsePerMille(std::getenv(kSizeVariable));
    return kPerMille;
}

/// CPU time that the fault has used so far, over all threads.
class Burnt {
  public:
    static void add(std::chrono::nanoseconds time) {
        total_.fetch_add(time.count(), std::memory_order_relaxed);
    }
    static std::chrono::nanoseconds total() {
        return std::chrono::nanoseconds(total_.load(std::memory_order_relaxed));
    }

  private:
    static inline std::atomic<int64_t> total_{0};
};

/// CPU time of the calling thread.
inline std::chrono::nanoseconds threadTime() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Repeats `step` until the calling thread has used `time` of its CPU for it, and counts the time
/// that it really used: time in which the thread did not run is not counted.
template <class Step>
void burnFor(std::chrono::nanoseconds time, Step&& step) {
    const auto begin = threadTime();
    auto now = begin;
    while (now - begin < time) {
        step();
        now = threadTime();
    }
    Burnt::add(now - begin);
}

/// Cycle: the time of a thread from the end of one run of requests to the end of the next:
/// executing, answering, and waiting for a client that has one batch in flight.
class Cycle {
  public:
    /// A longer cycle means that the client was out of turn: the cycle before is used instead.
    static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(1);

    /// Returns the cycle that ends `now`.
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

inline std::chrono::nanoseconds steadyTime() {
    return std::chrono::steady_clock::now().time_since_epoch();
}

/// Work that front-end threads owe and another thread does.
class Debt {
  public:
    /// Called at the end of a run of requests: adds the calling thread's cycle, times the size of
    /// the fault.
    void addCycle(unsigned perMille) {
        thread_local Cycle cycle;
        const auto now = steadyTime();
        add(cycle.end(now) * perMille / 1000);
        cycle.begin(now);
    }
    void add(std::chrono::nanoseconds time) {
        owed_.fetch_add(time.count(), std::memory_order_relaxed);
    }
    /// Returns all of it, which is then settled.
    std::chrono::nanoseconds take() {
        return std::chrono::nanoseconds(owed_.exchange(0, std::memory_order_relaxed));
    }

  private:
    std::atomic<int64_t> owed_{0};
};

/// A thread that calls `work` once per period, with the time since the call before, until it is
/// destroyed. A late call is not made up for: the next one receives all the time.
class Ticker {
  public:
    using Work = std::function<void(std::chrono::nanoseconds elapsed)>;

    Ticker(std::chrono::nanoseconds period, Work work)
        : work_(std::move(work)), thread_([this, period] { run(period); }) {}
    Ticker(const Ticker&) = delete;
    Ticker& operator=(const Ticker&) = delete;
    ~Ticker() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

  private:
    void run(std::chrono::nanoseconds period) {
        auto before = steadyTime();
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, period, [this] { return stop_; })) {
            const auto now = steadyTime();
            work_(now - before);
            before = now;
        }
    }

    Work work_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stop_ = false;
    std::thread thread_;  // last, because it uses the others
};

}  // namespace kv::options
