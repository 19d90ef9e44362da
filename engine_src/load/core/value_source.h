#pragma once

// ValueSource: document bodies that are seeded, different from each other, and cheap.
//
// A body is a window of a pool of random bytes (or of random text inside a JSON object) that starts
// at a random place. Its first bytes are overwritten with a random word, so no two documents are
// alike and none compresses on its own. Random bytes per document would cost more CPU than all the
// rest of the generator. A word from wordFor() is bound to a key, so a body shows to which key it
// belongs (holds()). Threads: immutable after construction.

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "load/core/random.h"

namespace kv::load {

class ValueSource {
  public:
    enum class Kind : std::uint8_t { kBinary, kJson };
    /// How sizes lie between the smallest and the largest. Lognormal: their logarithms are normal
    /// around the middle, and the limits are three standard deviations away from it.
    enum class Sizes : std::uint8_t { kUniform, kLognormal };
    /// {"data":"..."} around the text.
    static constexpr std::size_t kJsonFrame = 11;

    /// Sizes are min..max inclusive. Throws std::invalid_argument if min > max, or if a JSON
    /// document cannot have the smallest size.
    ValueSource(Kind kind, std::uint32_t minSize, std::uint32_t maxSize, std::uint64_t seed,
                Sizes sizes = Sizes::kUniform);

    std::uint32_t minSize() const noexcept { return minSize_; }
    std::uint32_t maxSize() const noexcept { return maxSize_; }
    /// Draws a size; takes no number from `random` if there is only one size.
    std::uint32_t drawSize(Random& random) const noexcept {
        if (minSize_ == maxSize_) {
            return minSize_;
        }
        return quantiles_.empty() ? minSize_ + static_cast<std::uint32_t>(random.below(
                                                       std::uint64_t{maxSize_} - minSize_ + 1))
                                  : drawLognormal(random.next());
    }

    /// Writes a body of `size` bytes; the same word gives the same body.
    void write(std::uint8_t* to, std::uint32_t size, std::uint64_t word) const noexcept {
        if (kind_ == Kind::kBinary) {
            if (size == 0) {
                return;  // there may be no buffer at all
            }
            std::memcpy(to, pool_.data() + (word & kPoolMask), size);
            std::memcpy(to, &word, size < sizeof(word) ? size : sizeof(word));
        } else {
            writeJson(to, size, word);
        }
    }

    /// Returns a word for a body of the key of `number`: half of it is random, the other half
    /// follows from that and the key.
    static constexpr std::uint64_t wordFor(std::uint64_t number, std::uint64_t random) noexcept {
        const auto half = random & ~kKeyHalf;
        return (Random::mix(Random::mix(number ^ kKeySalt) + half) & kKeyHalf) | half;
    }
    /// Returns true if write() makes such a body with a word for the key of `number`, and the size
    /// is allowed. If a body is too short for a word, only the part that is there is compared.
    bool holds(std::span<const std::uint8_t> body, std::uint64_t number) const noexcept;

  private:
    static constexpr std::uint64_t kKeyHalf = 0xffffffff00000000U;
    static constexpr std::uint64_t kKeySalt = 0x6b65792077697468U;
    static constexpr std::size_t kPoolMask = 0x7fff;  // 32 KiB: stays in the second-level cache
    static constexpr std::size_t kJsonDigits = 10;    // of the word, six bits each
    static constexpr unsigned kQuantileBits = 10;
    std::uint32_t drawLognormal(std::uint64_t word) const noexcept;
    void writeJson(std::uint8_t* to, std::uint32_t size, std::uint64_t word) const noexcept;
    bool holdsBinary(std::span<const std::uint8_t> body, std::uint64_t number) const noexcept;
    bool holdsJson(std::span<const std::uint8_t> body, std::uint64_t number) const noexcept;

    Kind kind_;
    std::uint32_t minSize_;
    std::uint32_t maxSize_;
    std::vector<std::uint8_t> pool_;
    std::vector<double> quantiles_;  // of lognormal sizes, from the smallest to the largest
};

}  // namespace kv::load
