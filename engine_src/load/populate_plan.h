#pragma once

// The populate phase: every key once, in order, each connection its own range; a store that the
// server refuses for the moment is retried until it is taken. See BatchTraffic for the contract.
// Alone it is one turn without end; in turns with others (fill_in_turns.h) begin() opens each.

#include <limits>

#include "load/access_plan.h"

namespace kv::load {

class PopulatePlan {
  public:
    using Start = AccessPlan::Start;

    PopulatePlan(std::uint64_t items, std::uint64_t startAt, std::uint64_t seed,
                 std::uint32_t batch, std::uint32_t window, LaneRange lanes,
                 const RequestWriter& requests, const ValueSource& values);

    /// A turn: so many batches of each lane, which is then finished until the next.
    void begin(std::uint32_t batches);
    /// Every key is stored, or was refused for good.
    bool exhausted() const;

    Start next(std::size_t lane, Nanos now);
    Nanos wakeAt(std::size_t lane) const;
    bool finished(std::size_t lane) const;
    std::size_t maxSize() const { return requests_.maxSize(values_.maxSize()); }
    std::size_t write(std::size_t lane, std::uint8_t* to, std::uint32_t opaque);
    /// Throws LoadError when the server has refused every store for a minute.
    void answered(std::size_t lane, std::uint32_t opaque, protocol::Status status, Nanos now);
    void stop() { stopped_ = true; }

    /// Keys stored so far.
    std::uint64_t stored() const noexcept { return stored_; }

  private:
    struct Lane {
        std::uint64_t cursor = 0;
        std::uint64_t last = 0;
        std::uint32_t allowed = std::numeric_limits<std::uint32_t>::max();  // batches in this turn
        std::vector<std::uint64_t> sent;   // ring by opaque: the key of each unanswered request
        std::vector<std::uint64_t> retry;  // refused, to be sent again
        Nanos notBefore = 0;
        Nanos backOff = 0;
    };

    static std::uint64_t left(const Lane& lane) {
        return lane.retry.size() + (lane.last - lane.cursor);
    }

    std::uint64_t startAt_;
    std::uint64_t seed_;
    std::uint32_t batch_;
    const RequestWriter& requests_;
    const ValueSource& values_;
    std::vector<Lane> lanes_;
    std::uint64_t stored_ = 0;
    Nanos lastStored_ = 0;
    bool stopped_ = false;
};

}  // namespace kv::load
