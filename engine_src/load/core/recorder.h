#pragma once

// The measurements of one thread during one phase: counters, per-second series, latency histograms.
// Threads: used by its thread only; merged after the threads have ended.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/core/clock.h"
#include "load/core/histogram.h"
#include "protocol/status.h"

namespace kv::load {

enum class OpKind : std::uint8_t { kGet, kSet, kDelete };

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

/// Answered requests. gets + sets + deletes is every answer, whatever its status.
struct OpCounts {
    std::uint64_t gets = 0;
    std::uint64_t sets = 0;
    std::uint64_t deletes = 0;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t verified = 0;  // hits whose value was compared and correct
    Errors errors;

    std::uint64_t ops() const noexcept { return gets + sets + deletes; }
    void add(const OpCounts& other) noexcept;
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
        } else if (kind == OpKind::kSet) {
            ++sets;
            if (status == protocol::Status::kSuccess) [[likely]] {
                return;
            }
        } else {
            ++deletes;  // the document is gone, whether it was there or not
            if (status == protocol::Status::kSuccess || status == protocol::Status::kKeyEnoent) {
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
    /// include everything. `live`, if given, always holds the number of answers for a progress
    /// display.
    Recorder(Nanos start, Nanos ramp, std::atomic<std::uint64_t>* live = nullptr);

    /// Counts the answers of one read, all of which arrived at `now`.
    void add(Nanos now, const OpCounts& opCounts);
    /// Records `times` answers at `now` to requests that were sent (or, at a given rate, due) at
    /// `sentAt`.
    void latency(OpKind kind, Nanos sentAt, Nanos now, std::uint64_t times) noexcept {
        if (now >= rampEnd_) {
            auto& histogram = kind == OpKind::kGet ? gets_ : sets_;
            histogram.record(static_cast<std::uint64_t>(now > sentAt ? now - sentAt : 0), times);
        }
    }
    /// Keeps the text of the first request that the server refused.
    void refused(std::string_view text) {
        if (refusal_.empty()) {
            refusal_ = text.substr(0, 200);
        }
    }
    void countTimeouts(std::uint64_t requests) noexcept { total_.errors.timeout += requests; }
    /// Starts over and returns the earlier counts.
    OpCounts restart(Nanos start, Nanos ramp) noexcept;
    /// Ends the phase; series and seconds extend to `now`.
    void finish(Nanos now) noexcept { end_ = now; }
    /// Adds the measurements of another thread. A recorder with start 0 never began its phase and
    /// does not extend it.
    void merge(const Recorder& other);

    const OpCounts& total() const noexcept { return total_; }
    const std::string& refusal() const noexcept { return refusal_; }
    const std::vector<SeriesPoint>& series() const noexcept { return series_; }
    const Histogram& histogram(OpKind kind) const noexcept {
        return kind == OpKind::kGet ? gets_ : sets_;
    }
    Nanos start() const noexcept { return start_; }
    /// Returns the length of the phase.
    Nanos elapsed() const noexcept { return end_ > start_ ? end_ - start_ : 0; }

  private:
    Nanos start_;
    Nanos rampEnd_;
    Nanos end_;
    OpCounts total_;
    std::string refusal_;
    std::vector<SeriesPoint> series_;
    Histogram gets_;
    Histogram sets_;
    std::atomic<std::uint64_t>* live_;
};

/// Merges one thread's part into a sum, which is empty before the first part.
template <class Part>
void mergeInto(std::optional<Part>& sum, const Part& part) {
    if (sum) {
        sum->merge(part);
    } else {
        sum = part;
    }
}

}  // namespace kv::load
