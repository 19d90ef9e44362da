#pragma once

// Document bodies: seeded, different from each other, and cheap.
//
// A body is a window of a pool of random bytes (or of random text inside a JSON object) that starts
// at a random place, and its first bytes are overwritten with a random word, so no two documents
// are alike and none compresses on its own. Random bytes per document would cost more CPU than all
// the rest of the generator. Immutable after construction.

#include <cstdint>
#include <cstring>
#include <vector>

namespace kv::load {

class ValueSource {
  public:
    enum class Kind : std::uint8_t { kBinary, kJson };
    /// {"data":"..."} around the text.
    static constexpr std::size_t kJsonFrame = 11;

    /// Sizes are min..max inclusive. Throws std::invalid_argument if min > max, or if a JSON
    /// document could not have the smallest size.
    ValueSource(Kind kind, std::uint32_t minSize, std::uint32_t maxSize, std::uint64_t seed);

    std::uint32_t minSize() const noexcept { return minSize_; }
    std::uint32_t maxSize() const noexcept { return maxSize_; }

    /// Writes a body of `size` bytes; the same word gives the same body.
    void write(std::uint8_t* to, std::uint32_t size, std::uint64_t word) const noexcept {
        if (kind_ == Kind::kBinary) {
            std::memcpy(to, pool_.data() + (word & kPoolMask), size);
            std::memcpy(to, &word, size < sizeof(word) ? size : sizeof(word));
        } else {
            writeJson(to, size, word);
        }
    }

  private:
    static constexpr std::size_t kPoolMask = 0x7fff;  // 32 KiB: stays in the second-level cache
    void writeJson(std::uint8_t* to, std::uint32_t size, std::uint64_t word) const noexcept;

    Kind kind_;
    std::uint32_t minSize_;
    std::uint32_t maxSize_;
    std::vector<std::uint8_t> pool_;
};

}  // namespace kv::load
