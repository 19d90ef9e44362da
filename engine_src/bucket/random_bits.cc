#include "bucket/random_bits.h"

#include <mutex>
#include <random>

namespace kv {

uint64_t randomBits() {
    static std::mutex mutex;
    static std::mt19937_64 random = [] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device()};
        return std::mt19937_64(seed);
    }();
    const std::lock_guard lock(mutex);
    return random();
}

}  // namespace kv
