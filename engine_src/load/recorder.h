#pragma once

// What one thread saw during one phase: counters, per-second series, latency histograms.
// Used by its thread only; merged after the threads have ended.

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "load/clock.h"
#include "load/histogram.h"
#include "protocol/status.h"

namespace kv::load {

enum class OpKind : std::uint8_t { kGet, kSet };

/// Answers that were errors, by kind. A miss is not an error.
struct Errors {
    std::uint64_t etmpfail = 0;
    std::uint64_t enomem = 0;
    std::uint64_t notMyVbucket = 0;
    std::uint64_t timeout = 0;  // requests never answered
    std::uint64_t other = 0;

    void count(protocol::Status status) noexcept;
    void add(const Errors& other) noexcept;
    std::uint64_t total() const noexcept {
        return etmpfail + enomem + notMyVbucket + timeout + other;
    }
};

/// Answered requests. gets + sets is every answer, whatever its status.
struct Tally {
    std::uint64_t gets = 0;
    std::uint64_t sets = 0;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    Errors errors;

    std::uint64_t ops() const noexcept { return gets + sets; }
    void add(const Tally& other) noexcept;
    void count(OpKind kind, protocol::Status status) noexcept {
        if (kind == OpKind::kGet) {
            ++gets;
            if (status == protocol::Status::kSuccess) [[likely]] {
                ++hits;
                return;
            }
            if (status == protocol::Status::kKeyEnoent) {
                ++misses;
                return;
            }
        } else {
            ++sets;
            if (status == protocol::Status::kSuccess) [[likely]] {
                return;
            }
        }
        errors.count(status);
    }
};

/// One second of a phase. Seconds are aligned with the phase's start.
struct SeriesPoint {
    std::uint64_t gets = 0;
    std::uint64_t sets = 0;
    std::uint64_t misses = 0;
    std::uint64_t errors = 0;
};

class Recorder {
  public:
    /// Latencies of answers before start + ramp are left out of the histograms; counters and series
    /// hold everything. `live`, if given, is kept at the number of answers for a progress display.
    Recorder(Nanos start, Nanos ramp, std::atomic<std::uint64_t>* live = nullptr);

    /// Counts the answers of one read, all of which arrived at `now`.
    void add(Nanos now, const Tally& tally);
    /// `times` answers at `now` to requests sent (or, at a given rate, due) at `sentAt`.
    void latency(OpKind kind, Nanos sentAt, Nanos now, std::uint64_t times) noexcept {
        if (now >= rampEnd_) {
            auto& histogram = kind == OpKind::kGet ? gets_ : sets_;
            histogram.record(static_cast<std::uint64_t>(now > sentAt ? now - sentAt : 0), times);
        }
    }
    void countTimeouts(std::uint64_t requests) noexcept { total_.errors.timeout += requests; }
    /// Begins anew; gives what was counted before.
    Tally restart(Nanos start, Nanos ramp) noexcept;
    /// Ends the phase; series and seconds reach up to `now`.
    void finish(Nanos now) noexcept { end_ = now; }
    void merge(const Recorder& other);

    const Tally& total() const noexcept { return total_; }
    const std::vector<SeriesPoint>& series() const noexcept { return series_; }
    const Histogram& histogram(OpKind kind) const noexcept {
        return kind == OpKind::kGet ? gets_ : sets_;
    }
    Nanos start() const noexcept { return start_; }
    /// Length of the phase.
    Nanos elapsed() const noexcept { return end_ > start_ ? end_ - start_ : 0; }

  private:
    Nanos start_;
    Nanos rampEnd_;
    Nanos end_;
    Tally total_;
    std::vector<SeriesPoint> series_;
    Histogram gets_;
    Histogram sets_;
    std::atomic<std::uint64_t>* live_;
};

/// Merges one thread's part into a sum that is empty until the first.
template <class Part>
void mergeInto(std::optional<Part>& sum, const Part& part) {
    if (sum) {
        sum->merge(part);
    } else {
        sum = part;
    }
}

}  // namespace kv::load
