#pragma once

// Keys and their vBuckets.
//
// vb = ((crc32(key) >> 16) & 0x7fff) % n, with zlib's crc32. The checksum of a key costs more than
// writing it, and CRC is linear: for keys of one length it is the checksum of the key whose digits
// are all zero, xor one table entry per pair of digits. So KeyCodec writes a key and computes its
// checksum with about one table lookup per two non-zero digits, without a pass over the bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kv::load {

/// The mapping that every client of a server with vBuckets uses. Precondition: vbuckets > 0.
constexpr std::uint16_t vbucketOf(std::uint32_t crc, std::uint32_t vbuckets) noexcept {
    return static_cast<std::uint16_t>(((crc >> 16U) & 0x7fffU) % vbuckets);
}

/// zlib's crc32: for keys that do not have the shape of a KeyCodec, and for values.
std::uint32_t crcOf(std::string_view bytes) noexcept;

/// KeyCodec: keys of the shape prefix + zero-padded decimal number + suffix. Threads: immutable
/// after construction, so one may serve all threads.
class KeyCodec {
  public:
    static constexpr unsigned kMaxDigits = 20;

    /// `digits` is even and at most kMaxDigits. Throws std::invalid_argument otherwise, or if the
    /// whole key is longer than 250 bytes (the protocol's limit).
    KeyCodec(std::string_view prefix, unsigned digits, std::string_view suffix = {});

    std::size_t size() const noexcept { return zero_.size(); }
    /// The key of number 0: the template that write() patches.
    std::string_view zeroKey() const noexcept { return zero_; }
    /// The largest number that fits.
    std::uint64_t maxNumber() const noexcept { return maxNumber_; }

    /// `key` points at a copy of zeroKey(); writes the digits of `number` (<= maxNumber()) over its
    /// zeros and returns the checksum of the whole key.
    std::uint32_t write(std::uint8_t* key, std::uint64_t number) const noexcept {
        std::uint8_t* to = key + digitsEnd_;
        std::uint32_t crc = zeroCrc_;
        const auto* table = pairCrc_.data();
        while (number != 0) {
            const auto pair = number % 100;
            number /= 100;
            to -= 2;
            to[0] = static_cast<std::uint8_t>('0' + pair / 10);
            to[1] = static_cast<std::uint8_t>('0' + pair % 10);
            crc ^= (*table++)[pair];
        }
        return crc;
    }

    /// As write(), without the checksum.
    void writeDigits(std::uint8_t* key, std::uint64_t number) const noexcept {
        std::uint8_t* to = key + digitsEnd_;
        while (number != 0) {
            const auto pair = number % 100;
            number /= 100;
            to -= 2;
            to[0] = static_cast<std::uint8_t>('0' + pair / 10);
            to[1] = static_cast<std::uint8_t>('0' + pair % 10);
        }
    }

    std::string text(std::uint64_t number) const;

  private:
    std::string zero_;
    std::size_t digitsEnd_ = 0;
    std::uint64_t maxNumber_ = 0;
    std::uint32_t zeroCrc_ = 0;
    // [pair of digits from the right][its value] -> its xor into the checksum
    std::array<std::array<std::uint32_t, 100>, kMaxDigits / 2> pairCrc_{};
};

}  // namespace kv::load
