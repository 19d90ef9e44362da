#pragma once

// AccessPlan: the requests of the mixed phase: which key, GET or SET, when, and until when. One per
// thread and server; lanes are its connections. See BatchTraffic for the Plan's contract.
//
// Load is sent in slices: begin() opens one, and at its end every lane is finished until the next.
// A single server has one slice, the whole phase. Keys and coins continue from slice to slice, and
// so does the schedule of a rate, which stands still between slices.

#include <cstdint>
#include <limits>
#include <vector>

#include "load/core/clock.h"
#include "load/core/random.h"
#include "load/core/value_source.h"
#include "load/generators/operation.h"
#include "protocol/status.h"

namespace kv::load {

enum class KeySemantics : std::uint8_t {
    // SET if and only if key mod 100 < share, as cbc-pillowfight: written and read keys are
    // disjoint.
    kKeyMod,
    kRandom,  // a coin for each operation
};

struct AccessOptions {
    std::uint64_t items = 1000;
    std::uint64_t startAt = 0;  // number of the first key
    double setPercent = 33;
    KeySemantics semantics = KeySemantics::kRandom;
    bool sequential = false;
    bool sharedSequence = false;  // every connection replays the same keys
    std::uint64_t seed = 0;
    std::uint32_t batch = 100;
    double rate = 0;  // operations per second over all lanes of all threads; 0: as fast as answered
    /// Limit of operations over all lanes of all threads, and limit of batches for each thread.
    std::uint64_t maxOps = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t maxCycles = std::numeric_limits<std::uint64_t>::max();
};

/// The range of lanes that this thread has: [first, first + count) of total.
struct LaneRange {
    std::size_t first = 0;
    std::size_t count = 1;
    std::size_t total = 1;
};

/// Returns the beginning of the n-th of `parts` nearly equal parts of [0, whole): no number is left
/// out.
constexpr std::uint64_t partBegin(std::uint64_t whole, std::uint64_t n,
                                  std::uint64_t parts) noexcept {
    return whole / parts * n + (n < whole % parts ? n : whole % parts);
}

class AccessPlan {
  public:
    struct Start {
        std::uint32_t ops = 0;
        Nanos at = 0;
    };

    /// Refers to `values`, which outlives it.
    AccessPlan(const AccessOptions& options, LaneRange lanes, const ValueSource& values);

    /// Opens a slice: batches begin in [from, until); kNever: until the limits of the options.
    /// Without a rate one batch begins in any case, even if the host did not let this thread run in
    /// that time.
    void begin(Nanos from, Nanos until);
    /// True if nothing is left for another slice.
    bool exhausted() const;

    Start next(std::size_t lane, Nanos now);
    Nanos wakeAt(std::size_t lane) const;
    bool finished(std::size_t lane) const;
    Operation operation(std::size_t lane, std::uint32_t opaque);
    void answered(std::size_t, std::uint32_t, protocol::Status, Nanos) noexcept {}
    void stop() { stopped_ = true; }

    /// Operations that the rate made due in slices and that were not sent, because the window was
    /// full: how far the server has fallen behind. `end` as in the last slice.
    std::uint64_t overdue(Nanos end) const;

  private:
    struct Lane {
        Random random;
        std::uint64_t opsLeft;
        std::uint64_t cursor;  // sequential: next, within [first, last)
        std::uint64_t first;
        std::uint64_t last;
        Nanos due;          // with a rate: time of the next batch
        bool ended = true;  // the slice's end has been seen
    };

    bool isSet(std::uint64_t key, std::uint64_t coin) const noexcept {
        return options_.semantics == KeySemantics::kKeyMod
                       ? static_cast<double>(key % 100) < options_.setPercent
                       : coin < setBelow_;
    }

    AccessOptions options_;
    const ValueSource& values_;
    Nanos until_ = 0;     // end of the slice: the schedule stands still from there
    Nanos interval_ = 0;  // between two batches of a lane; 0: no rate
    std::uint64_t cyclesLeft_;
    std::uint64_t setBelow_;
    std::vector<Lane> lanes_;
    bool begun_ = false;  // a batch has begun in this slice
    bool stopped_ = false;
};

}  // namespace kv::load
