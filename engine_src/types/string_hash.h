// StringHash: looks up std::string keys by a std::string_view, without a copy:
// std::unordered_map<std::string, T, StringHash, std::equal_to<>>.
//
// It is hashKey, so nobody outside can choose keys that crowd such a table either.
#pragma once

#include <cstddef>
#include <string_view>

namespace kv {

struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept;
};

}  // namespace kv
