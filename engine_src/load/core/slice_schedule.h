#pragma once

// SliceSchedule: determines which variant is under load. A group is several servers (variants) that
// run at the same time and are loaded alternately: a *slice* of load on one variant, a *round* of
// one slice of every variant in a random order. All threads are on the same variant at the same
// time; a slice ends when each has all its answers. A single server is a group of one variant.
//
// Threads: each thread calls next() repeatedly. It ends the thread's part of the slice, waits for
// the others, and returns the next slice. The last thread to arrive does the accounting
// (ThreadTeam::inStep), so nothing else is locked; with one thread there is no lock at all.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "load/core/cpu_clock.h"
#include "load/core/load_error.h"
#include "load/core/round_order.h"
#include "load/core/thread_meter.h"
#include "load/core/thread_team.h"

namespace kv::load {

/// A failure of one variant: its connections, its answers or its CPU clock.
class VariantFailure : public LoadError {
  public:
    VariantFailure(std::size_t variantNumber, const std::string& what)
        : LoadError(what), variant(variantNumber) {}
    std::size_t variant;
};

struct ScheduleOptions {
    std::size_t variants = 1;
    std::uint64_t seed = 0;  // of the rounds' orders
    // Counted from the first slice, checked at the end of a round:
    Nanos warmup = 0;    // rounds that begin before are not measured
    Nanos end = kNever;  // no round begins later, except the first measured one
    /// Time without load before the first slice: the CPU time that servers use in it is not caused
    /// by the load.
    Nanos idle = 0;
};

struct SliceFigures {
    Nanos begin = 0;
    Nanos wall = 0;
    std::uint64_t ops = 0;
    std::optional<Nanos> cpu;
    std::optional<Nanos> ownCpu;
    std::optional<Nanos> foreignCpu;
    Nanos clientCpu = 0;
    std::optional<Nanos> clientDelay;
    std::size_t position = 0;
};

/// The measurements of one variant in its measured slices, one entry for each complete round.
struct SliceLog {
    std::vector<Nanos> start;  // since the first measured round began
    std::vector<Nanos> wall;
    std::vector<std::uint64_t> ops;  // answers
    /// The server's CPU time since the end of its slice before, so that its work between slices is
    /// included in the sum; empty without a clock.
    std::vector<Nanos> cpu;
    std::vector<Nanos> ownCpu;  // the part of it in the slice
    // Of all other servers, in the slice; empty unless each of them has a clock.
    std::vector<Nanos> foreignCpu;
    std::vector<Nanos> clientCpu;  // of all load threads, in the slice
    // The time that they waited for a CPU; empty if the kernel does not report it.
    std::vector<Nanos> clientDelay;
    std::vector<std::size_t> position;  // in the round

    void add(const SliceFigures& slice, Nanos firstBegin);
    std::size_t rounds() const noexcept { return wall.size(); }
    /// Sum of `wall`.
    Nanos sliceTime() const noexcept;
};

class SliceSchedule {
  public:
    struct Slice {
        std::size_t variant = 0;
        std::uint64_t round = 0;  // including warm-up
        Nanos begin = 0;
        bool measured = false;
    };
    /// The work of a thread in the slice that it ends.
    struct Done {
        std::uint64_t ops = 0;
        bool exhausted = false;  // this thread has no more work for the variant
    };

    /// Returns the CPU clock of a variant, or null if there is none. Called by the last thread to
    /// ask for the first slice; a LoadError becomes a VariantFailure.
    using OpenClock = std::function<std::unique_ptr<CpuClock>(std::size_t variant)>;

    /// Refers to `team`, which outlives it.
    SliceSchedule(ThreadTeam& team, const ScheduleOptions& options, OpenClock openClock);
    ~SliceSchedule();

    /// Called by each thread of the team; `done` is about its slice before (empty the first time).
    /// Returns nothing when the load ends: time over, all variants exhausted, or stopped. If a
    /// slice is aborted, its whole round is in no log. Throws VariantFailure if a clock fails.
    std::optional<Slice> next(std::size_t thread, Done done);
    /// Called by a thread that fails in its slice, so that its CPU time is counted anyway.
    void abandon(std::size_t thread);

    // --- when all threads have ended ---
    const SliceLog& log(std::size_t variant) const { return logs_[variant]; }
    std::uint64_t warmupRounds() const noexcept { return warmupRounds_; }
    /// Half of the idle time, and the CPU time that a variant's server used in one of the halves.
    /// The half with less is taken, because in the first the server may still do work that filling
    /// left behind. Empty without a clock.
    Nanos idleTime() const noexcept { return idleTime_; }
    std::optional<Nanos> idleCpu(std::size_t variant) const { return idleCpu_[variant]; }
    /// Time from the beginning of the first measured round to the end of the last.
    Nanos measuredTime() const noexcept { return measuredEnd_ - measuredBegin_; }
    /// CPU time of a thread in the measured slices of a variant, or from the first of all variants
    /// to the last.
    CpuTime cpu(std::size_t thread, std::size_t variant) const;
    CpuTime cpu(std::size_t thread) const;

  private:
    struct Account;  // a thread's part of the accounting

    void settleUsage(Account& account) const;
    void switchOver();
    void start();
    void readClocks();
    void closeSlice();
    void closeRound();

    ThreadTeam& team_;
    ScheduleOptions options_;
    OpenClock openClock_;
    std::vector<std::unique_ptr<CpuClock>> clocks_;
    using Readings = std::vector<std::optional<Nanos>>;  // by variant, empty without a clock
    Readings readings_;                                  // of the last switch
    Readings readingsBefore_;                            // of the switch before
    Readings ownEnd_;                                    // at the end of the variant's slice before
    Readings idleCpu_;
    Nanos idleTime_ = 0;
    std::vector<std::unique_ptr<Account>> accounts_;
    std::vector<SliceLog> logs_;

    // Written by the last thread of each slice, read by all after it.
    std::vector<SliceFigures> figures_;  // of the round, by variant
    RoundOrder order_;
    std::size_t position_ = 0;
    Slice slice_;
    bool started_ = false;
    bool over_ = false;
    Nanos firstBegin_ = 0;
    std::uint64_t warmupRounds_ = 0;
    Nanos measuredBegin_ = 0;
    Nanos measuredEnd_ = 0;
};

}  // namespace kv::load
