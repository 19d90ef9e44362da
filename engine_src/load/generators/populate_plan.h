#pragma once

// PopulatePlan: every key, or a share of the keys, is stored (or deleted) once, in order; each
// connection has its own range. A request that the server refuses temporarily is retried until it
// is taken. See BatchTraffic for the contract. A single variant has one slice without end; with
// several (round_order.h), begin() opens each slice.

#include <limits>

#include "load/generators/access_plan.h"
#include "load/generators/drawn_keys.h"

namespace kv::load {

struct PopulateOptions {
    std::uint64_t items = 1000;
    std::uint64_t startAt = 0;  // number of the first key
    std::uint64_t seed = 0;
    std::uint32_t batch = 100;
    std::uint32_t window = 1;
    double share = 100;  // percent of the keys; the seed draws which (KeyDraw)
    std::uint32_t draw = 0;
    bool remove = false;  // delete, rather than store
};

class PopulatePlan {
  public:
    using Start = AccessPlan::Start;

    /// Refers to `values`, which outlives it.
    PopulatePlan(const PopulateOptions& options, LaneRange lanes, const ValueSource& values);

    /// Opens a slice of `batches` batches per lane; after them the lane is finished until the next
    /// slice.
    void begin(std::uint32_t batches);
    /// True if every key is stored or deleted, or was refused permanently.
    bool exhausted() const;

    Start next(std::size_t lane, Nanos now);
    Nanos wakeAt(std::size_t lane) const;
    bool finished(std::size_t lane) const;
    Operation operation(std::size_t lane, std::uint32_t opaque);
    /// Throws LoadError if the server has refused every store for a minute.
    void answered(std::size_t lane, std::uint32_t opaque, protocol::Status status, Nanos now);
    void stop() { stopped_ = true; }

    /// Keys stored or deleted so far.
    std::uint64_t stored() const noexcept { return stored_; }

  private:
    struct Lane {
        std::uint64_t cursor = 0;   // the next key, if it is chosen
        std::uint64_t pending = 0;  // chosen keys from there to the end of the lane's range
        std::uint32_t allowed = std::numeric_limits<std::uint32_t>::max();  // batches in this slice
        std::vector<std::uint64_t> sent;   // ring by opaque: the key of each unanswered request
        std::vector<std::uint64_t> retry;  // refused, to be sent again
        Nanos notBefore = 0;
        Nanos backOff = 0;
    };

    static std::uint64_t left(const Lane& lane) { return lane.retry.size() + lane.pending; }
    bool chosen(std::uint64_t key) const noexcept;

    PopulateOptions options_;
    const ValueSource& values_;
    std::vector<Lane> lanes_;
    std::uint64_t stored_ = 0;
    Nanos lastStored_ = 0;
    bool stopped_ = false;
};

}  // namespace kv::load
