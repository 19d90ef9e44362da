// Sizes of a hash table: primes next to 3 * 2^k, each about twice the one before.
#pragma once

#include <array>
#include <cstdint>

namespace kv {

inline constexpr std::array<uint32_t, 29> kPrimeSizes{
        3,        7,         13,        23,        47,       97,      193,      383,
        769,      1531,      3067,      6143,      12289,    24571,   49157,    98299,
        196613,   393209,    786433,    1572869,   3145721,  6291449, 12582917, 25165813,
        50331653, 100663291, 201326611, 402653189, 805306357};

}  // namespace kv
