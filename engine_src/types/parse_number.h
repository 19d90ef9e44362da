// parseNumber: text of flags, files and messages as a number.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace kv {

/// Returns the number that the whole text is, without spaces or a plus sign; nothing if it is none,
/// or not from `least` to `most`.
template <class Number>
std::optional<Number> parseNumber(std::string_view text,
                                  Number least = std::numeric_limits<Number>::lowest(),
                                  Number most = std::numeric_limits<Number>::max()) {
    Number number{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc{} || end != last || !(number >= least && number <= most)) {
        return std::nullopt;
    }
    return number;
}

}  // namespace kv
