// The digits of a number as constant text: for the name of a policy that is chosen by a number.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace kv::options {

namespace detail {

template <size_t Number>
constexpr auto digitsOf() {
    constexpr size_t kCount = [] {
        size_t count = 1;
        for (size_t rest = Number / 10; rest != 0; rest /= 10) {
            ++count;
        }
        return count;
    }();
    std::array<char, kCount> text{};
    size_t rest = Number;
    for (size_t at = kCount; at-- > 0; rest /= 10) {
        text[at] = static_cast<char>('0' + rest % 10);
    }
    return text;
}

template <size_t Number>
inline constexpr auto kText = digitsOf<Number>();

}  // namespace detail

template <size_t Number>
inline constexpr std::string_view kDigits{detail::kText<Number>.data(),
                                          detail::kText<Number>.size()};

}  // namespace kv::options
