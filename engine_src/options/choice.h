// How a build switch becomes a type: constexpr string comparison on the generated value, so that no
// room sees an #ifdef.
#pragma once

#include <string_view>
#include <type_traits>

namespace kv::options {

/// True when the build switch's text equals `value`. Usage: std::conditional_t<is(KV_SELECTED_X,
/// "walk"), WalkPolicy, ComparePolicy>.
constexpr bool is(std::string_view selected, std::string_view value) {
    return selected == value;
}

/// A switch that takes a number: its value, or 0 when the text is not a number.
constexpr unsigned number(std::string_view selected) {
    unsigned value = 0;
    for (const char c : selected) {
        if (c < '0' || c > '9') {
            return 0;
        }
        value = value * 10 + static_cast<unsigned>(c - '0');
    }
    return value;
}

}  // namespace kv::options
