#pragma once

// Keys that a churn deletes and stores again. Each draw of a churn takes a share of all keys,
// independently of the draws before; a key that was drawn comes back with a new length. Everything
// follows from seed, draw and number of the key, so that separate processes agree without a record
// of what was done. Threads: all classes are immutable after construction.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/core/random.h"
#include "load/protocols/key_codec.h"

namespace kv::load {

/// Decides which keys a draw takes.
struct KeyDraw {
    std::uint64_t seed = 0;
    double share = 100;  // percent

    bool takes(std::uint64_t number, std::uint32_t draw) const noexcept {
        constexpr std::uint64_t kSalt = 0x6368757266;  // the bodies follow from the same seed
        return share >= 100 || static_cast<double>(Random((seed ^ kSalt) + draw, number).next()) <
                                       share / 100 * 0x1p64;
    }
    /// Returns one more than the last of the draws 0 ... draws - 1 that takes the key; 0: none
    /// does.
    std::uint32_t last(std::uint64_t number, std::uint32_t draws) const noexcept {
        while (draws != 0 && !takes(number, draws - 1)) {
            --draws;
        }
        return draws;
    }
};

/// The shapes of keys of all lengths between two limits, and the shape that each key has.
class DrawnKeys {
  public:
    static constexpr std::size_t kMostLengths = 32;

    /// Keys have `smallest` to `largest` bytes; both 0: those of prefix and digits. `draws` is the
    /// number of draws after which they have their lengths. Throws std::invalid_argument if the
    /// limits cannot be keys.
    DrawnKeys(std::string_view prefix, std::size_t smallest, std::size_t largest, KeyDraw draw,
              std::uint32_t draws)
        : draw_(draw), draws_(draws) {
        const auto least = prefix.size() + KeyCodec::kMaxDigits;
        smallest = std::max(smallest, least);
        largest = std::max(largest, smallest);
        const auto lengths = std::min(kMostLengths, largest - smallest + 1);
        for (std::size_t i = 0; i < lengths; ++i) {
            const auto size =
                    lengths == 1 ? smallest : smallest + i * (largest - smallest) / (lengths - 1);
            shapes_.emplace_back(prefix, KeyCodec::kMaxDigits, std::string(size - least, 'x'));
        }
    }

    /// By length, the shortest first.
    const std::vector<KeyCodec>& shapes() const noexcept { return shapes_; }
    /// Returns the index of the key's shape.
    std::size_t shapeOf(std::uint64_t number) const noexcept {
        constexpr std::uint64_t kSalt = 0x6c656e677468;
        return Random((draw_.seed ^ kSalt) + draw_.last(number, draws_), number)
                .below(shapes_.size());
    }

  private:
    KeyDraw draw_;
    std::uint32_t draws_;
    std::vector<KeyCodec> shapes_;
};

/// A Codec (see BatchTraffic) for keys of several lengths, made of one codec for each.
template <class Codec>
class DrawnKeysCodec {
  public:
    using Reader = typename Codec::Reader;
    static constexpr bool kRouted = Codec::kRouted;
    static constexpr bool kQuiet = Codec::kQuiet;

    /// Refers to `keys`, which outlives it. `make` makes the codec of a KeyCodec.
    template <class Make>
    DrawnKeysCodec(const DrawnKeys& keys, const Make& make) : keys_(&keys) {
        codecs_.reserve(keys.shapes().size());
        for (const auto& shape : keys.shapes()) {
            codecs_.push_back(make(shape));
        }
    }

    std::size_t maxSize(std::uint32_t valueSize) const { return codecs_.back().maxSize(valueSize); }
    std::size_t get(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const {
        return of(number).get(to, number, opaque);
    }
    std::size_t remove(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const {
        return of(number).remove(to, number, opaque);
    }
    std::size_t set(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque,
                    std::uint32_t valueSize) const {
        return of(number).set(to, number, opaque, valueSize);
    }
    std::size_t tail(std::uint8_t* to) const { return codecs_.front().tail(to); }

    static std::uint16_t vbucketOf(const std::uint8_t* request) noexcept requires(Codec::kRouted) {
        return Codec::vbucketOf(request);
    }
    static constexpr std::size_t kFenceSize = [] {
        if constexpr (Codec::kQuiet) {
            return Codec::kFenceSize;
        } else {
            return std::size_t{0};
        }
    }();
    std::size_t fence(std::uint8_t* to) const requires(Codec::kQuiet) {
        return codecs_.front().fence(to);
    }

  private:
    const Codec& of(std::uint64_t number) const { return codecs_[keys_->shapeOf(number)]; }

    const DrawnKeys* keys_;
    std::vector<Codec> codecs_;
};

}  // namespace kv::load
