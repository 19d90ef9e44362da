#include "load/generators/append_document.h"

#include <array>
#include <cstring>
#include <string_view>

#include "load/core/random.h"

namespace kv::load {

namespace {

constexpr std::string_view kTemplate =
        R"({"pn": "000000000000", "nam": "ViberPhone_0000000000000000"}, )";
constexpr std::size_t kUnit = kFieldSize + 2;
static_assert(kTemplate.size() == kUnit);
constexpr std::size_t kDigitsEnd = 20;
constexpr std::size_t kHexBegin = 42;
static_assert(kTemplate.substr(kDigitsEnd - 13, 14) == "\"000000000000\"");
static_assert(kTemplate.substr(kHexBegin - 11, 11) == "ViberPhone_");

}  // namespace

void writeDocument(std::uint8_t* to, std::uint64_t seed, std::uint64_t id,
                   std::size_t fields) noexcept {
    std::array<char, kUnit> unit{};
    std::memcpy(unit.data(), kTemplate.data(), kUnit);
    for (std::size_t at = kDigitsEnd, rest = id; rest != 0; rest /= 10) {
        unit[--at] = static_cast<char>('0' + rest % 10);
    }
    auto hash = Random(seed, id).next();
    for (std::size_t i = 0; i < 16; ++i, hash <<= 4U) {
        unit[kHexBegin + i] = "0123456789abcdef"[hash >> 60U];
    }
    *to++ = '[';
    for (std::size_t i = 0; i < fields; ++i, to += kUnit) {
        // The last field has no ", " after it: the closing bracket comes there.
        std::memcpy(to, unit.data(), i + 1 == fields ? kFieldSize : kUnit);
    }
    *(to - 2) = ']';
}

std::string documentText(std::uint64_t seed, std::uint64_t id, std::size_t fields) {
    std::string text(documentSize(fields), '\0');
    writeDocument(reinterpret_cast<std::uint8_t*>(text.data()), seed, id, fields);
    return text;
}

std::uint32_t initialFields(std::uint64_t seed, std::uint64_t id, std::uint32_t min,
                            std::uint32_t max) noexcept {
    Random random(seed ^ 0x6669656c6473U, id);  // another stream than the content's
    return min + static_cast<std::uint32_t>(random.below(max - min + 1));
}

}  // namespace kv::load
