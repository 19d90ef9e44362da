#include "load/core/value_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kv::load {

namespace {

constexpr std::string_view kAlphabet =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
static_assert(kAlphabet.size() == 64);
constexpr std::string_view kOpen = R"({"data":")";
constexpr std::string_view kClose = R"("})";
static_assert(kOpen.size() + kClose.size() == ValueSource::kJsonFrame);

/// The standard normal deviate below which a share of (0, 1) lies.
double normalQuantile(double share) {
    double low = -8;
    double high = 8;
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (std::erfc(-middle / std::numbers::sqrt2) / 2 < share ? low : high) = middle;
    }
    return low;
}

/// The sizes at 0/steps, 1/steps, ... 1 of the distribution that Sizes::kLognormal describes.
std::vector<double> lognormalQuantiles(std::uint32_t minSize, std::uint32_t maxSize,
                                       std::size_t steps) {
    const double low = std::log(std::max(minSize, 1U));
    const double high = std::log(std::max(maxSize, 1U));
    std::vector<double> sizes{static_cast<double>(minSize)};
    for (std::size_t i = 1; i < steps; ++i) {
        const auto share = static_cast<double>(i) / static_cast<double>(steps);
        const double size = std::exp((low + high + normalQuantile(share) * (high - low) / 3) / 2);
        sizes.push_back(std::clamp<double>(size, minSize, maxSize));
    }
    sizes.push_back(maxSize);
    return sizes;
}

}  // namespace

ValueSource::ValueSource(Kind kind, std::uint32_t minSize, std::uint32_t maxSize,
                         std::uint64_t seed, Sizes sizes)
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
    if (sizes == Sizes::kLognormal) {
        quantiles_ = lognormalQuantiles(minSize, maxSize, std::size_t{1} << kQuantileBits);
    }
}

std::uint32_t ValueSource::drawLognormal(std::uint64_t word) const noexcept {
    // The upper bits choose a step between two quantiles, the others a place within it.
    const auto step = static_cast<std::size_t>(word >> (64U - kQuantileBits));
    const auto place = static_cast<double>(word << kQuantileBits >> 11U) * 0x1p-53;
    const auto size = quantiles_[step] + place * (quantiles_[step + 1] - quantiles_[step]);
    return std::clamp(static_cast<std::uint32_t>(std::lround(size)), minSize_, maxSize_);
}

void ValueSource::writeJson(std::uint8_t* to, std::uint32_t size,
                            std::uint64_t word) const noexcept {
    const std::size_t text = size - kJsonFrame;
    std::memcpy(to, kOpen.data(), kOpen.size());
    std::uint8_t* body = to + kOpen.size();
    std::memcpy(body, pool_.data() + (word & kPoolMask), text);
    for (std::size_t i = 0; i < std::min(text, kJsonDigits); ++i) {
        body[i] = static_cast<std::uint8_t>(kAlphabet[(word >> (6U * i)) & 63U]);
    }
    std::memcpy(body + text, kClose.data(), kClose.size());
}

bool ValueSource::holds(std::span<const std::uint8_t> body, std::uint64_t number) const noexcept {
    if (body.size() < minSize_ || body.size() > maxSize_) {
        return false;
    }
    return kind_ == Kind::kBinary ? holdsBinary(body, number) : holdsJson(body, number);
}

bool ValueSource::holdsBinary(std::span<const std::uint8_t> body,
                              std::uint64_t number) const noexcept {
    static_assert(std::endian::native == std::endian::little);
    if (body.empty()) {
        return true;  // it has no byte that could be wrong
    }
    std::uint64_t word = 0;
    const auto head = std::min(body.size(), sizeof(word));
    std::memcpy(&word, body.data(), head);
    const auto present =
            head == sizeof(word) ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * head)) - 1;
    return ((word ^ wordFor(number, word)) & kKeyHalf & present) == 0 &&
           std::equal(body.begin() + static_cast<std::ptrdiff_t>(head), body.end(),
                      pool_.begin() + static_cast<std::ptrdiff_t>((word & kPoolMask) + head));
}

bool ValueSource::holdsJson(std::span<const std::uint8_t> body,
                            std::uint64_t number) const noexcept {
    const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
    if (!text.starts_with(kOpen) || !text.ends_with(kClose)) {
        return false;
    }
    const auto inner = text.substr(kOpen.size(), text.size() - kJsonFrame);
    std::uint64_t word = 0;
    std::uint64_t present = 0;
    const auto digits = std::min(inner.size(), kJsonDigits);
    for (std::size_t i = 0; i < digits; ++i) {
        const auto digit = kAlphabet.find(inner[i]);
        if (digit == std::string_view::npos) {
            return false;
        }
        word |= std::uint64_t{digit} << (6U * i);
        present |= std::uint64_t{63} << (6U * i);
    }
    return ((word ^ wordFor(number, word)) & kKeyHalf & present) == 0 &&
           std::equal(inner.begin() + static_cast<std::ptrdiff_t>(digits), inner.end(),
                      pool_.begin() + static_cast<std::ptrdiff_t>((word & kPoolMask) + digits));
}

}  // namespace kv::load
