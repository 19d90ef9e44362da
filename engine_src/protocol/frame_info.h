#pragma once

// The framing extras of flexible frames: a list of (id, data), each with a 4-bit id and a 4-bit
// length in one byte. A nibble of 15 is an escape: the next byte is added to it.

#include <cstdint>
#include <optional>

#include "protocol/frame.h"

namespace kv::protocol {

enum class RequestFrameId : std::uint16_t {
    kBarrier = 0,
    kDurability = 1,
    kDcpStreamId = 2,
    kImpersonate = 4,
    kPreserveTtl = 5,
};

struct FrameInfo {
    std::uint16_t id = 0;
    Bytes data{};
};

// Iterates over a list. `next` returns nothing at the end and if the list is broken: check bad()
// after it.
class FrameInfoReader {
  public:
    constexpr explicit FrameInfoReader(Bytes framing) noexcept : rest_(framing) {}

    constexpr std::optional<FrameInfo> next() noexcept {
        if (bad_ || rest_.empty()) {
            return std::nullopt;
        }
        const std::uint8_t first = take();
        std::uint16_t id = first >> 4U;
        std::uint16_t length = first & 0x0fU;
        if ((id == 15 && !escape(id)) || (length == 15 && !escape(length)) ||
            length > rest_.size()) {
            bad_ = true;
            return std::nullopt;
        }
        FrameInfo info{id, rest_.first(length)};
        rest_ = rest_.subspan(length);
        return info;
    }

    constexpr bool bad() const noexcept { return bad_; }

  private:
    constexpr std::uint8_t take() noexcept {
        const std::uint8_t byte = rest_.front();
        rest_ = rest_.subspan(1);
        return byte;
    }
    constexpr bool escape(std::uint16_t& nibble) noexcept {
        if (rest_.empty()) {
            return false;
        }
        nibble = static_cast<std::uint16_t>(nibble + take());
        return true;
    }

    Bytes rest_;
    bool bad_ = false;
};

}  // namespace kv::protocol
