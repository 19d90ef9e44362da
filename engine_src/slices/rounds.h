// The rounds of one benchmark: one slice of every arm, one right after the other, in an order drawn
// anew for each round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slices/arm.h"
#include "slices/plan.h"
#include "slices/slice_server.h"

namespace kv::slices {

/// Slices of one arm; entry i belongs to round i, in all arms.
struct ArmSlices {
    std::vector<TimedSlice> slices;
    std::vector<size_t> positions;  ///< in its round, from 0
};

struct BenchmarkRounds {
    Offer offer;
    size_t warmUp{0};             ///< rounds that were run before, and are not here
    std::vector<ArmSlices> arms;  ///< in the plan's order
};

/// How many iterations the next slice is to have, so that it takes about as long as was asked.
class SliceSize {
  public:
    explicit SliceSize(double wantedNs) : wantedNs_(wantedNs) {}

    [[nodiscard]] int64_t iterations() const;
    /// A slice of `iterations` took so long. One slice moves the size by its square root only: a
    /// single hiccup is forgotten soon.
    void learn(int64_t iterations, double ns);
    /// Whether the last slice was long enough to believe its length, or cannot be shorter.
    [[nodiscard]] bool settled() const { return settled_; }

  private:
    double wantedNs_;
    double size_{1};
    bool settled_{false};
};

/// Runs the rounds that the plan asks for of `offer`, which all arms have.
///
/// Where runs are parts of a pass all arms do equally many iterations in a round, so that they are
/// compared in the same state, and whole passes are run. Else each arm's slice is as long as was
/// asked. The orders follow from `seed` alone.
///
/// The first rounds settle the size and warm up, and are dropped: the first pass, or until the
/// sizes have settled; unless there is no other pass, or they fill the time that was asked.
BenchmarkRounds runRounds(const Plan& plan, const Offer& offer, std::vector<Arm*> arms,
                          uint64_t seed);

}  // namespace kv::slices
