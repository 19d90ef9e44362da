#pragma once

// The order of the variants of a group, when they take their slices and when they are filled.
// Threads: one at a time.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "load/core/random.h"

namespace kv::load {

/// A fresh random permutation for each round, so that no variant profits from its predecessor. The
/// sequence depends only on the seed.
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

/// Requests per connection before the next variant is filled.
constexpr std::uint32_t kFillRequests = 100;

/// Fills the variants in rotation, a little at a time, so that all are filled at the same time:
/// calls fill(variant) in rounds until it has returned false for each variant, which means that
/// nothing is left to do there; or until `stop`. Every round is a fresh random permutation.
///
/// If they are filled one after the other, the place in the order shows for the whole run (probably
/// by the pages that the kernel has to give at that moment). Of six engines of one binary, the
/// first to be filled was 1.3 % slower in four of four experiments, and the sd of a variant's
/// throughput over blocks was 0.71 % against 0.54 % with ten parts each (8 blocks, 2-core VM).
template <class Fill>
void fillInRotation(std::size_t variants, std::uint64_t seed, const std::atomic<bool>& stop,
                    Fill&& fill) {
    RoundOrder order(variants, seed);
    std::vector<bool> full(variants);
    for (std::size_t left = variants; left != 0;) {
        order.shuffle();
        for (std::size_t position = 0; position < variants; ++position) {
            const auto variant = order[position];
            if (stop.load(std::memory_order_relaxed)) {
                return;
            }
            if (!full[variant] && !fill(variant)) {
                full[variant] = true;
                --left;
            }
        }
    }
}

}  // namespace kv::load
