// hashKey: 64 well-mixed bits of a key. The hash table takes its bucket from the high 32 and its
// tag from the low 16.
//
// Own function in the multiply-and-fold family (128-bit product, halves xored), chosen because a
// typical key of 8 to 24 bytes costs two or three multiplications and no loop. Keyed by secrets
// that are drawn anew in each process: nobody outside can choose keys that crowd one bucket. (With
// known constants a key whose first word equals one of them makes the product 0, whatever follows.)
// Not stored anywhere, so it may change.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace kv {

namespace detail {

__extension__ using Uint128 = unsigned __int128;

constexpr uint64_t kHashMultiplier = 0xaef17502108ef2d9ULL;

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

/// What keys hashKey: each word of a key is mixed with one of the two.
struct HashSecrets {
    uint64_t first{0x9e3779b97f4a7c15ULL};
    uint64_t second{0xd1b54a32d192ed03ULL};

    /// From the kernel, which always has as much.
    static HashSecrets random() noexcept {
        HashSecrets drawn;
        if (getentropy(&drawn, sizeof drawn) != 0) {
            std::abort();
        }
        return drawn;
    }
};

/// This process's; read-only.
inline const HashSecrets kHashSecrets = HashSecrets::random();

inline uint64_t hashKey(std::string_view key, const HashSecrets& secrets = kHashSecrets) {
    using namespace detail;
    const char* bytes = key.data();
    size_t left = key.size();
    uint64_t state = secrets.first ^ (key.size() * kHashMultiplier);
    while (left > 16) {
        state = foldedProduct(loadWord<uint64_t>(bytes) ^ secrets.second,
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
    state = foldedProduct(first ^ secrets.second, last ^ state);
    return foldedProduct(state ^ secrets.first, kHashMultiplier);
}

}  // namespace kv
