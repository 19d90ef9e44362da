// hashKey: 64 well-mixed bits of a key, for every table with keys of clients. The hash table takes
// its bucket from the high 32 bits and its tag from the low 16.
//
// It is XXH3, inlined, with a seed that each process draws, so nobody outside can choose keys that
// crowd one bucket. (With a known seed, a key whose first word equals the secret's makes a product
// 0, for any second word.) Not stored anywhere, so it may change.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kv {

struct HashSeed {
    uint64_t value{0};

    /// From the kernel, which always has enough.
    static HashSeed random() noexcept {
        HashSeed drawn;
        if (getentropy(&drawn, sizeof drawn) != 0) {
            std::abort();
        }
        return drawn;
    }
};

/// The seed of this process; read-only.
inline const HashSeed kHashSeed = HashSeed::random();

inline uint64_t hashKey(std::string_view key, HashSeed seed = kHashSeed) {
    return XXH3_64bits_withSeed(key.data(), key.size(), seed.value);
}

}  // namespace kv
