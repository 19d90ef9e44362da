#pragma once

// Who is in turn. An ensemble is several servers (arms) that live side by side and are loaded in
// turn: a *slice* of load on one arm, a *round* of one slice of every arm in a random order. All
// threads are on the same arm at the same time; a slice ends when each has all its answers.
// A single server is an ensemble of one arm.
//
// Each thread calls next() again and again: it ends the thread's part of the slice, waits for the
// others, and says what comes next. The last thread to arrive does the accounts (Crew::inStep), so
// nothing else is locked; with one thread there is no lock at all.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "load/cpu_clock.h"
#include "load/crew.h"
#include "load/load_error.h"
#include "load/round_order.h"
#include "load/thread_meter.h"

namespace kv::load {

/// A failure of one arm: its connections, its answers or its CPU clock.
class ArmFailure : public LoadError {
  public:
    ArmFailure(std::size_t armNumber, const std::string& what) : LoadError(what), arm(armNumber) {}
    std::size_t arm;
};

struct TurnOptions {
    std::size_t arms = 1;
    std::uint64_t seed = 0;  // of the rounds' orders
    // Since the first slice began, looked at when a round has ended:
    Nanos warmup = 0;    // rounds that begin before are not measured
    Nanos end = kNever;  // no round begins later, apart from the first that is measured
};

struct Slice {
    Nanos begin = 0;
    Nanos wall = 0;
    std::uint64_t ops = 0;
    std::optional<Nanos> cpu;
    Nanos clientCpu = 0;
    std::optional<Nanos> clientDelay;
    std::size_t position = 0;
};

/// What happened to one arm in its measured slices, one entry for each whole round.
struct SliceLog {
    std::vector<Nanos> start;  // since the first measured round began
    std::vector<Nanos> wall;
    std::vector<std::uint64_t> ops;  // answers
    /// The server's CPU time since the end of its slice before, so that work which it does out of
    /// turn is in the sum; empty without a clock.
    std::vector<Nanos> cpu;
    std::vector<Nanos> clientCpu;    // of all load threads, in the slice
    std::vector<Nanos> clientDelay;  // that they waited for a CPU; empty if the kernel cannot say
    std::vector<std::size_t> position;  // in the round

    void add(const Slice& slice, Nanos firstBegin);
    std::size_t rounds() const noexcept { return wall.size(); }
    /// Sum of `wall`.
    Nanos inTurn() const noexcept;
};

class Turns {
  public:
    struct Turn {
        std::size_t arm = 0;
        std::uint64_t round = 0;  // warm-up included
        Nanos begin = 0;
        bool measured = false;
    };
    /// What a thread did in the slice that it ends.
    struct Done {
        std::uint64_t ops = 0;
        bool exhausted = false;  // this thread has no more work for the arm, ever
    };

    /// Gives the CPU clock of an arm, null where there is none. Called by the last thread to ask
    /// for the first turn; a LoadError becomes an ArmFailure.
    using OpenClock = std::function<std::unique_ptr<CpuClock>(std::size_t arm)>;

    /// Refers to `crew`, which outlives it.
    Turns(Crew& crew, const TurnOptions& options, OpenClock openClock);
    ~Turns();

    /// Called by each thread of the crew; `done` is about its slice before (the first time: none).
    /// Empty when the load ends: time over, all arms exhausted, or stopped. A slice that was broken
    /// off, and the whole round of it, is in no log. Throws ArmFailure if a clock fails.
    std::optional<Turn> next(std::size_t thread, Done done);
    /// Called by a thread that fails in its slice, so that its CPU time is counted all the same.
    void abandon(std::size_t thread);

    // --- when all threads have ended ---
    const SliceLog& log(std::size_t arm) const { return logs_[arm]; }
    std::uint64_t warmupRounds() const noexcept { return warmupRounds_; }
    /// From the beginning of the first measured round to the end of the last.
    Nanos measuredTime() const noexcept { return measuredEnd_ - measuredBegin_; }
    /// CPU of a thread in the measured slices of an arm, and from the first of all arms to the
    /// last.
    CpuTime cpu(std::size_t thread, std::size_t arm) const;
    CpuTime cpu(std::size_t thread) const;

  private:
    struct Seat;  // a thread's part of the accounts

    void settleUsage(Seat& seat) const;
    void switchOver();
    void start();
    std::optional<Nanos> readClock(std::size_t arm);
    void closeSlice();
    void closeRound();

    Crew& crew_;
    TurnOptions options_;
    OpenClock openClock_;
    std::vector<std::unique_ptr<CpuClock>> clocks_;
    std::vector<std::optional<Nanos>> cpuBefore_;  // its clock at the end of its slice before
    std::vector<std::unique_ptr<Seat>> seats_;
    std::vector<SliceLog> logs_;

    // Written by the last thread of each slice, read by all after it.
    std::vector<Slice> slices_;  // of the round, by arm
    RoundOrder order_;
    std::size_t position_ = 0;
    Turn turn_;
    bool started_ = false;
    bool over_ = false;
    Nanos firstBegin_ = 0;
    std::uint64_t warmupRounds_ = 0;
    Nanos measuredBegin_ = 0;
    Nanos measuredEnd_ = 0;
};

}  // namespace kv::load
