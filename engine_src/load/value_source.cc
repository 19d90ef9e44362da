#include "load/value_source.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "load/random.h"

namespace kv::load {

namespace {

constexpr std::string_view kAlphabet =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
static_assert(kAlphabet.size() == 64);
constexpr std::string_view kOpen = R"({"data":")";
constexpr std::string_view kClose = R"("})";
static_assert(kOpen.size() + kClose.size() == ValueSource::kJsonFrame);

}  // namespace

ValueSource::ValueSource(Kind kind, std::uint32_t minSize, std::uint32_t maxSize,
                         std::uint64_t seed)
    : kind_(kind), minSize_(minSize), maxSize_(maxSize), pool_(kPoolMask + 1 + maxSize) {
    if (minSize > maxSize) {
        throw std::invalid_argument("the minimum value size is larger than the maximum");
    }
    if (kind == Kind::kJson && minSize < kJsonFrame) {
        throw std::invalid_argument("a JSON document has at least " + std::to_string(kJsonFrame) +
                                    " bytes");
    }
    Random random(seed);
    for (auto& byte : pool_) {
        const auto word = random.next();
        byte = kind == Kind::kBinary ? static_cast<std::uint8_t>(word)
                                     : static_cast<std::uint8_t>(kAlphabet[word & 63U]);
    }
}

void ValueSource::writeJson(std::uint8_t* to, std::uint32_t size,
                            std::uint64_t word) const noexcept {
    const std::size_t text = size - kJsonFrame;
    std::memcpy(to, kOpen.data(), kOpen.size());
    std::uint8_t* body = to + kOpen.size();
    std::memcpy(body, pool_.data() + (word & kPoolMask), text);
    for (std::size_t i = 0; i < std::min<std::size_t>(text, 10); ++i) {
        body[i] = static_cast<std::uint8_t>(kAlphabet[(word >> (6U * i)) & 63U]);
    }
    std::memcpy(body + text, kClose.data(), kClose.size());
}

}  // namespace kv::load
