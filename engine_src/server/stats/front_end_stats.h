// FrontEndStats: the counters of one front-end thread; STAT adds the threads up.
//
// Threads: the owning thread writes with relaxed stores (no read-modify-write), and any thread may
// read. Timings are sampled: on average one of `sampleEvery` operations is timed, at random gaps,
// so that a client's batch pattern cannot alias with it. Two clock readings per operation would
// cost a tenth of a small operation.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "protocol/opcodes.h"
#include "server/stats/latency_histogram.h"

namespace kv::server {

/// A number that one thread writes and others read.
class Counter {
  public:
    void add(uint64_t by = 1) {
        value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    [[nodiscard]] uint64_t get() const {
        return value_.load(std::memory_order_relaxed) - base_.load(std::memory_order_relaxed);
    }
    /// Any thread. Moves the origin instead of writing the value, because the owner's next add
    /// would undo that.
    void reset() { base_.store(value_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
    std::atomic<uint64_t> base_{0};
};

class alignas(64) FrontEndStats {
  public:
    explicit FrontEndStats(uint32_t sampleEvery) : sampleEvery_(sampleEvery), gap_(sampleEvery) {}
    FrontEndStats(const FrontEndStats&) = delete;
    FrontEndStats& operator=(const FrontEndStats&) = delete;
    ~FrontEndStats();

    Counter requests;  ///< all commands, known or not
    Counter gets;      ///< Get, GetK, Gat, GetLocked and their quiet forms
    Counter getHits;
    Counter sets;            ///< Set, Add, Replace, Append, Prepend and their quiet forms
    Counter otherMutations;  ///< Delete, Increment, Decrement, Touch, Gat, and their quiet forms
    Counter flushes;
    Counter bytesRead;
    Counter bytesWritten;
    Counter wakeups;  ///< number of reads from connections
    /// Turns that ended with requests left over, for the sake of other connections.
    Counter yields;
    Counter slowReaders;  ///< times that a connection was not read because its client does not read
    Counter authErrors;
    Counter bufferLimitCloses;
    Counter overdueCloses;  ///< closes because a request or a login did not come in time

    /// True when the operation that starts now should be timed.
    bool sample() {
        if (sampleEvery_ == 0 || --gap_ != 0) {
            return false;
        }
        random_ = random_ * 1664525U + 1013904223U;
        gap_ = 1 +
               static_cast<uint32_t>((uint64_t{random_} * (2 * uint64_t{sampleEvery_} - 1)) >> 32U);
        return true;
    }
    void record(protocol::Opcode opcode, std::chrono::steady_clock::duration took);

    /// nullptr if the opcode was never timed, or not since reset().
    [[nodiscard]] const LatencyHistogram* timing(protocol::Opcode opcode) const {
        return resetPending_.load(std::memory_order_acquire)
                       ? nullptr
                       : timings_[protocol::raw(opcode)].load(std::memory_order_acquire);
    }
    /// Any thread. The owner clears its histograms itself before it records again.
    void reset();

  private:
    void clearTimings();

    uint32_t sampleEvery_;
    uint32_t gap_;
    uint32_t random_{0x9e3779b9U};
    std::atomic<bool> resetPending_{false};
    std::array<std::atomic<LatencyHistogram*>, 256>
            timings_{};  ///< owned; created at the first sample
};

}  // namespace kv::server
