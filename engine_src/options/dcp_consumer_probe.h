// Build switch ENGINE_DCP_CONSUMER_PROBE: how the consumer visits its stream slots: it tests the
// slot first and copies the ref-counted stream only if there is one (before the copy), or it copies
// first and tests the copy (after the copy), which costs two atomic operations per empty slot.
#pragma once

#include <string_view>

namespace kv::options {

struct ProbeBeforeCopy {
    static constexpr std::string_view kName = "before";

    /// Returns a copy of the slot's pointer, or an empty one. `Slot` is an atomic shared pointer or
    /// similar: test(), copy().
    template <class Slot>
    static auto take(const Slot& slot) {
        return slot.test() ? slot.copy() : decltype(slot.copy()){};
    }
};

struct ProbeAfterCopy {
    static constexpr std::string_view kName = "after";

    template <class Slot>
    static auto take(const Slot& slot) {
        return slot.copy();
    }
};

}  // namespace kv::options
