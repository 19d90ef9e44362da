#pragma once

// Network-order loads and stores on bytes: no alignment assumed, no aliasing, usable at compile
// time.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kv::protocol {

// gcc does not always see the byte loop as one load, so at run time it is spelt out.
template <std::unsigned_integral T>
constexpr T swapBytes(T value) noexcept {
    if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
        return value;
    } else if constexpr (sizeof(T) == 2) {
        return __builtin_bswap16(value);
    } else if constexpr (sizeof(T) == 4) {
        return __builtin_bswap32(value);
    } else {
        return __builtin_bswap64(value);
    }
}

template <std::unsigned_integral T>
constexpr T loadBig(const std::uint8_t* from) noexcept {
    if (std::is_constant_evaluated()) {
        T value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            value = static_cast<T>(value |
                                   static_cast<T>(T{from[i]} << (8U * (sizeof(T) - 1U - i))));
        }
        return value;
    }
    T value;
    std::memcpy(&value, from, sizeof(T));
    return swapBytes(value);
}

template <std::unsigned_integral T>
constexpr void storeBig(std::uint8_t* to, T value) noexcept {
    if (std::is_constant_evaluated()) {
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            to[i] = static_cast<std::uint8_t>(value >> (8U * (sizeof(T) - 1U - i)));
        }
        return;
    }
    value = swapBytes(value);
    std::memcpy(to, &value, sizeof(T));
}

}  // namespace kv::protocol
