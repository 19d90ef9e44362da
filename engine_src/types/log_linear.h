// LogLinear: the buckets of a histogram with bounded relative width: values below 2^Bits have one
// each, and every doubling above is divided into 2^(Bits-1).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kv {

template <unsigned Bits>
class LogLinear {
  public:
    /// Buckets of all values below 2^`valueBits`.
    static constexpr size_t buckets(unsigned valueBits) {
        return (size_t{1} << Bits) + (valueBits - Bits) * kHalf;
    }
    static constexpr size_t bucketOf(uint64_t value) {
        if (value < (uint64_t{1} << Bits)) {
            return static_cast<size_t>(value);
        }
        // Bits significant bits remain, of which the highest is always set.
        const auto shift = static_cast<unsigned>(std::bit_width(value)) - Bits;
        return (size_t{shift} + 1) * kHalf + (static_cast<size_t>(value >> shift) - kHalf);
    }
    /// Largest value that falls into `bucket`.
    static constexpr uint64_t upperOf(size_t bucket) {
        if (bucket < (size_t{1} << Bits)) {
            return bucket;
        }
        const size_t shift = bucket / kHalf - 1;
        return ((uint64_t{bucket % kHalf + kHalf} + 1) << shift) - 1;
    }

  private:
    static constexpr size_t kHalf = size_t{1} << (Bits - 1);
};

}  // namespace kv
