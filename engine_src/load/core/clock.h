#pragma once

// Monotonic nanoseconds: the only clock of the load tools (a vDSO read, about 25 ns).

#include <chrono>
#include <cstdint>
#include <limits>

namespace kv::load {

using Nanos = std::int64_t;

inline constexpr Nanos kMilli = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

inline Nanos nowNanos() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
}

inline double seconds(Nanos nanos) noexcept {
    return static_cast<double>(nanos) / static_cast<double>(kSecond);
}

inline Nanos nanos(double seconds) noexcept {
    return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
}

}  // namespace kv::load
