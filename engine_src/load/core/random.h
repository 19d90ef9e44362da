#pragma once

// SplitMix64: a seeded generator whose sequence is the same on every platform and library version
// (that of std::uniform_int_distribution is not). About 1 ns per number. Not thread-safe, not for
// secrets.

#include <cstdint>

namespace kv::load {

class Random {
  public:
    constexpr explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

    /// An independent sequence: the same (seed, stream) always gives the same one.
    constexpr Random(std::uint64_t seed, std::uint64_t stream) noexcept
        : state_(mix(seed) ^ mix(~stream)) {}

    constexpr std::uint64_t next() noexcept {
        state_ += 0x9e3779b97f4a7c15U;
        return mix(state_);
    }

    /// Returns a uniform number in [0, limit) by multiply-shift (bias below limit / 2^64).
    /// Precondition: limit > 0.
    constexpr std::uint64_t below(std::uint64_t limit) noexcept { return scale(next(), limit); }

    /// Maps a 64-bit word onto [0, limit), keeping its order.
    static constexpr std::uint64_t scale(std::uint64_t word, std::uint64_t limit) noexcept {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint64_t>((Wide{word} * limit) >> 64U);
    }

    static constexpr std::uint64_t mix(std::uint64_t z) noexcept {
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }

  private:
    std::uint64_t state_;
};

}  // namespace kv::load
