#pragma once

// What the mixed phase sends: which key, GET or SET, when, and until when. One per thread and
// server; lanes are its connections. See BatchTraffic for the Plan's contract.
//
// Load is sent in turns: begin() opens one, and at its end every lane is finished until the next.
// A single server has one turn, the whole phase. Keys and coins go on from turn to turn; so does
// the schedule of a rate, which stands still between turns.

#include <cstdint>
#include <limits>
#include <vector>

#include "load/clock.h"
#include "load/random.h"
#include "load/request_writer.h"
#include "load/value_source.h"

namespace kv::load {

enum class KeySemantics : std::uint8_t {
    kKeyMod,  // SET iff key mod 100 < share, as cbc-pillowfight: written and read keys are disjoint
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
    double rate = 0;  // operations a second over all lanes of all threads; 0: as fast as answered
    /// Operations over all lanes of all threads, and batches for each thread.
    std::uint64_t maxOps = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t maxCycles = std::numeric_limits<std::uint64_t>::max();
};

/// Which of all lanes this thread has: [first, first + count) of total.
struct LaneRange {
    std::size_t first = 0;
    std::size_t count = 1;
    std::size_t total = 1;
};

/// Where the n-th of `parts` nearly equal parts of [0, whole) begins: no number is left out.
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

    /// Refers to `requests` and `values`, which outlive it.
    AccessPlan(const AccessOptions& options, LaneRange lanes, const RequestWriter& requests,
               const ValueSource& values);

    /// A turn: batches begin in [from, until); kNever: until the limits of the options. Without a
    /// rate one batch begins in any case, even if the host did not let this thread run meanwhile.
    void begin(Nanos from, Nanos until);
    /// Nothing is left for another turn.
    bool exhausted() const;

    Start next(std::size_t lane, Nanos now);
    Nanos wakeAt(std::size_t lane) const;
    bool finished(std::size_t lane) const;
    std::size_t maxSize() const { return requests_.maxSize(values_.maxSize()); }
    std::size_t write(std::size_t lane, std::uint8_t* to, std::uint32_t opaque);
    void answered(std::size_t, std::uint32_t, protocol::Status, Nanos) noexcept {}
    void stop() { stopped_ = true; }

    /// Operations that a rate made due in turns and that were not sent, because the window was
    /// full: how far the server has fallen behind. `end` as in the last turn.
    std::uint64_t overdue(Nanos end) const;

  private:
    struct Lane {
        Random random;
        std::uint64_t opsLeft;
        std::uint64_t cursor;  // sequential: next, within [first, last)
        std::uint64_t first;
        std::uint64_t last;
        Nanos due;          // with a rate: of the next batch
        bool ended = true;  // the turn's end has been seen
    };

    bool isSet(std::uint64_t key, std::uint64_t coin) const noexcept {
        return options_.semantics == KeySemantics::kKeyMod
                       ? static_cast<double>(key % 100) < options_.setPercent
                       : coin < setBelow_;
    }

    AccessOptions options_;
    const RequestWriter& requests_;
    const ValueSource& values_;
    Nanos until_ = 0;     // end of the turn: the schedule stands still from there
    Nanos interval_ = 0;  // between two batches of a lane; 0: no rate
    std::uint64_t cyclesLeft_;
    std::uint64_t setBelow_;
    std::vector<Lane> lanes_;
    bool begun_ = false;  // a batch, in this turn
    bool stopped_ = false;
};

}  // namespace kv::load
