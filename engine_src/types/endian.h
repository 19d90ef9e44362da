// Numbers as bytes in a given order, for the wire (big) or for the store (also little): no
// alignment assumed, no aliasing, usable at compile time.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kv {

// gcc does not always compile the byte loop to one load, so at run time it is written out.
template <std::unsigned_integral T>
constexpr T swapBytes(T value) noexcept {
    if constexpr (sizeof(T) == 1) {
        return value;
    } else if constexpr (sizeof(T) == 2) {
        return __builtin_bswap16(value);
    } else if constexpr (sizeof(T) == 4) {
        return __builtin_bswap32(value);
    } else {
        return __builtin_bswap64(value);
    }
}

template <std::endian Order, std::unsigned_integral T, class Byte>
constexpr T loadOrdered(const Byte* from) noexcept {
    static_assert(sizeof(Byte) == 1);
    if (std::is_constant_evaluated()) {
        T value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            const std::size_t place = Order == std::endian::big ? sizeof(T) - 1U - i : i;
            const T byte{static_cast<std::uint8_t>(from[i])};
            value = static_cast<T>(value | static_cast<T>(byte << (8U * place)));
        }
        return value;
    }
    T value;
    std::memcpy(&value, from, sizeof(T));
    return Order == std::endian::native ? value : swapBytes(value);
}

template <std::endian Order, std::unsigned_integral T, class Byte>
constexpr void storeOrdered(Byte* to, T value) noexcept {
    static_assert(sizeof(Byte) == 1);
    if (std::is_constant_evaluated()) {
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            const std::size_t place = Order == std::endian::big ? sizeof(T) - 1U - i : i;
            to[i] = static_cast<Byte>(static_cast<std::uint8_t>(value >> (8U * place)));
        }
        return;
    }
    value = Order == std::endian::native ? value : swapBytes(value);
    std::memcpy(to, &value, sizeof(T));
}

template <std::unsigned_integral T, class Byte>
constexpr T loadBig(const Byte* from) noexcept {
    return loadOrdered<std::endian::big, T>(from);
}
template <std::unsigned_integral T, class Byte>
constexpr void storeBig(Byte* to, T value) noexcept {
    storeOrdered<std::endian::big>(to, value);
}
template <std::unsigned_integral T, class Byte>
constexpr T loadLittle(const Byte* from) noexcept {
    return loadOrdered<std::endian::little, T>(from);
}
template <std::unsigned_integral T, class Byte>
constexpr void storeLittle(Byte* to, T value) noexcept {
    storeOrdered<std::endian::little>(to, value);
}

}  // namespace kv
