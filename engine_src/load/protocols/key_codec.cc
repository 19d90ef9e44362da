#include "load/protocols/key_codec.h"

#include <zlib.h>

#include <limits>
#include <stdexcept>

namespace kv::load {

std::uint32_t crcOf(std::string_view bytes) noexcept {
    return static_cast<std::uint32_t>(
            crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

KeyCodec::KeyCodec(std::string_view prefix, unsigned digits, std::string_view suffix) {
    constexpr std::size_t kMaxKey = 250;
    if (digits == 0 || digits % 2 != 0 || digits > kMaxDigits) {
        throw std::invalid_argument("a key has an even number of digits, at most 20");
    }
    if (prefix.size() + digits + suffix.size() > kMaxKey) {
        throw std::invalid_argument("the key would be longer than 250 bytes");
    }
    zero_ = std::string(prefix) + std::string(digits, '0') + std::string(suffix);
    digitsEnd_ = prefix.size() + digits;
    maxNumber_ = std::numeric_limits<std::uint64_t>::max();
    if (digits < kMaxDigits) {
        maxNumber_ = 1;
        for (unsigned i = 0; i < digits; ++i) {
            maxNumber_ *= 10;
        }
        --maxNumber_;
    }
    zeroCrc_ = crcOf(zero_);
    for (std::size_t pair = 0; pair < digits / 2; ++pair) {
        for (std::size_t value = 0; value < 100; ++value) {
            std::string key = zero_;
            key[digitsEnd_ - 2 * pair - 2] = static_cast<char>('0' + value / 10);
            key[digitsEnd_ - 2 * pair - 1] = static_cast<char>('0' + value % 10);
            pairCrc_[pair][value] = crcOf(key) ^ zeroCrc_;
        }
    }
}

std::string KeyCodec::text(std::uint64_t number) const {
    std::string key = zero_;
    write(reinterpret_cast<std::uint8_t*>(key.data()), number);
    return key;
}

}  // namespace kv::load
