// Empties the CPU's caches before a timed section: writes through a buffer several times the size
// of the last-level cache, one line after the other.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kv::bench {

class ColdCaches {
  public:
    ColdCaches() : buffer_(size()) {}

    /// Evicts everything that was cached before.
    void evict() {
        for (size_t i = 0; i < buffer_.size(); i += kLine) {
            ++buffer_[i];
        }
    }

  private:
    static constexpr size_t kLine = 64;
    static constexpr size_t kLeast = size_t{64} << 20, kMost = size_t{512} << 20;

    /// Twice the last-level cache (64 MiB if the system does not report it).
    static size_t size() {
        const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
        return std::clamp(level3 > 0 ? 2 * static_cast<size_t>(level3) : 0, kLeast, kMost);
    }

    std::vector<unsigned char> buffer_;
};

}  // namespace kv::bench
