// The rounds of one benchmark: one slice of every variant, one directly after the other, in a new
// random order in each round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slices/plan.h"
#include "slices/slice_server.h"
#include "slices/variant.h"

namespace kv::slices {

/// Slices of one variant; entry i belongs to round i, in all variants.
struct VariantSlices {
    std::vector<TimedSlice> slices;
    std::vector<size_t> positions;  ///< within the round, from 0
};

struct BenchmarkRounds {
    Offer offer;
    size_t warmUp{0};  ///< number of rounds that were run before and are not included
    std::vector<VariantSlices> variants;  ///< in the plan's order
};

/// Determines the number of iterations of the next slice, so that it takes about the requested
/// time.
class SliceSize {
  public:
    explicit SliceSize(double wantedNs) : wantedNs_(wantedNs) {}

    [[nodiscard]] int64_t iterations() const;
    /// Records that a slice of `iterations` took `ns`. One slice changes the size only by its
    /// square root, so a single outlier is soon forgotten.
    void learn(int64_t iterations, double ns);
    /// True if the last slice was long enough to trust its length, or cannot be shorter.
    [[nodiscard]] bool settled() const { return settled_; }

  private:
    double wantedNs_;
    double size_{1};
    bool settled_{false};
};

/// Runs the rounds of `offer` that the plan asks for; all variants have the offer.
///
/// If runs are parts of a pass, all variants do equally many iterations in a round, so that they
/// are compared in the same state, and whole passes are run. Otherwise each variant's slice has the
/// requested length. The orders depend only on `seed`.
///
/// The first rounds settle the size and warm up, and are dropped: the first pass, or until the
/// sizes have settled; unless there is no other pass, or they fill the requested time.
BenchmarkRounds runRounds(const Plan& plan, const Offer& offer, std::vector<Variant*> variants,
                          uint64_t seed);

}  // namespace kv::slices
