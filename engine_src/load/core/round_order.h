#pragma once

// The order in which the variants of a group take their slices: a fresh random permutation for each
// round, so that no variant profits from its predecessor. The sequence depends only on the seed.
// Threads: one at a time.

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "load/core/random.h"

namespace kv::load {

class RoundOrder {
  public:
    RoundOrder(std::size_t variants, std::uint64_t seed)
        : random_(seed, kStream), order_(variants) {
        std::iota(order_.begin(), order_.end(), std::size_t{0});
    }

    /// Draws the next round (Fisher-Yates).
    void shuffle() noexcept {
        for (std::size_t left = order_.size(); left > 1; --left) {
            std::swap(order_[left - 1], order_[random_.below(left)]);
        }
    }
    /// Returns the variant at `position` of the round.
    std::size_t operator[](std::size_t position) const noexcept { return order_[position]; }
    std::size_t size() const noexcept { return order_.size(); }

  private:
    // Distinct from the streams of the keys.
    static constexpr std::uint64_t kStream = 0x726f756e64U;

    Random random_;
    std::vector<std::size_t> order_;
};

}  // namespace kv::load
