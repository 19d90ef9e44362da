#pragma once

// In which order the arms of an ensemble take their slices: a fresh random permutation for each
// round, so that no arm profits from who went before it. The sequence follows from the seed alone.
// Used by one thread at a time.

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "load/random.h"

namespace kv::load {

class RoundOrder {
  public:
    RoundOrder(std::size_t arms, std::uint64_t seed) : random_(seed, kStream), order_(arms) {
        std::iota(order_.begin(), order_.end(), std::size_t{0});
    }

    /// Draws the next round (Fisher-Yates).
    void shuffle() noexcept {
        for (std::size_t left = order_.size(); left > 1; --left) {
            std::swap(order_[left - 1], order_[random_.below(left)]);
        }
    }
    /// The arm that is in turn at `position` of the round.
    std::size_t operator[](std::size_t position) const noexcept { return order_[position]; }
    std::size_t size() const noexcept { return order_.size(); }

  private:
    static constexpr std::uint64_t kStream = 0x726f756e64U;  // apart from the keys' streams

    Random random_;
    std::vector<std::size_t> order_;
};

}  // namespace kv::load
