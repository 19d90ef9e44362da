#pragma once

// RequestTemplate: a request as bytes that are copied in one piece, with the place of its key.
// Threads: immutable after construction.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "load/protocols/key_codec.h"

namespace kv::load {

/// The properties of a document that all protocols have, besides key and value.
struct DocumentShape {
    std::uint32_t expiry = 0;  // seconds; 0: never
    std::uint32_t flags = 0;
};

class RequestTemplate {
  public:
    RequestTemplate(const KeyCodec& keys, std::string_view before, std::string_view after)
        : keys_(&keys), keyAt_(before.size()) {
        const auto text = std::string(before) + std::string(keys.zeroKey()) + std::string(after);
        bytes_.assign(text.begin(), text.end());
    }

    std::size_t size() const noexcept { return bytes_.size(); }
    /// Writes size() bytes, with the key of `number`.
    std::size_t write(std::uint8_t* to, std::uint64_t number) const noexcept {
        std::memcpy(to, bytes_.data(), bytes_.size());
        keys_->writeDigits(to + keyAt_, number);
        return bytes_.size();
    }

  private:
    const KeyCodec* keys_;
    std::size_t keyAt_;
    std::vector<std::uint8_t> bytes_;
};

/// Writes decimal digits without leading zeros; returns their number (at most 10).
inline std::size_t writeDecimal(std::uint8_t* to, std::uint32_t number) noexcept {
    constexpr std::size_t kMost = 10;
    std::uint8_t digits[kMost];
    std::size_t first = kMost;
    do {
        digits[--first] = static_cast<std::uint8_t>('0' + number % 10);
        number /= 10;
    } while (number != 0);
    std::memcpy(to, digits + first, kMost - first);
    return kMost - first;
}

inline std::size_t writeText(std::uint8_t* to, std::string_view text) noexcept {
    std::memcpy(to, text.data(), text.size());
    return text.size();
}

}  // namespace kv::load
