// hashKey: 64 well-mixed bits of a key. The hash table takes its bucket from the high 32 and its
// tag from the low 16.
//
// Own function in the multiply-and-fold family (128-bit product, halves xored), chosen because a
// typical key of 8 to 24 bytes costs two or three multiplications and no loop. Not keyed: a client
// that wants a crowded bucket can make one, as with the historic djb2; the vBucket's CRC spreads
// such keys over 1024 tables. Not stored anywhere, so it may change.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace kv {

namespace detail {

__extension__ using Uint128 = unsigned __int128;

constexpr uint64_t kHashSeed0 = 0x9e3779b97f4a7c15ULL;
constexpr uint64_t kHashSeed1 = 0xd1b54a32d192ed03ULL;
constexpr uint64_t kHashSeed2 = 0xaef17502108ef2d9ULL;

inline uint64_t foldedProduct(uint64_t a, uint64_t b) {
    const Uint128 product = static_cast<Uint128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <class Word>
uint64_t loadWord(const char* bytes) {
    Word word;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
}

}  // namespace detail

inline uint64_t hashKey(std::string_view key) {
    using namespace detail;
    const char* bytes = key.data();
    size_t left = key.size();
    uint64_t state = kHashSeed0 ^ (key.size() * kHashSeed2);
    while (left > 16) {
        state = foldedProduct(loadWord<uint64_t>(bytes) ^ kHashSeed1,
                              loadWord<uint64_t>(bytes + 8) ^ state);
        bytes += 16;
        left -= 16;
    }
    uint64_t first = 0;
    uint64_t last = 0;
    if (left >= 8) {
        // Two words that may overlap: every byte is in at least one.
        first = loadWord<uint64_t>(bytes);
        last = loadWord<uint64_t>(bytes + left - 8);
    } else if (left >= 4) {
        first = loadWord<uint32_t>(bytes);
        last = loadWord<uint32_t>(bytes + left - 4);
    } else if (left > 0) {
        first = static_cast<uint8_t>(bytes[0]);
        last = (static_cast<uint64_t>(static_cast<uint8_t>(bytes[left / 2])) << 8) |
               static_cast<uint8_t>(bytes[left - 1]);
    }
    state = foldedProduct(first ^ kHashSeed1, last ^ state);
    return foldedProduct(state ^ kHashSeed0, kHashSeed2);
}

}  // namespace kv
