// Build switch ENGINE_DCP_CONSUMER_PROBE: how the consumer walks its stream slots: test the slot
// first and copy the ref-counted stream only if there is one (before the copy), or copy first and
// test the copy (after the copy), which costs two atomic operations an empty slot.
#pragma once

#include <string_view>

namespace kv::options {

struct ProbeBeforeCopy {
    static constexpr std::string_view kName = "before";

    /// A copy of the slot's pointer, or an empty one. `Slot` is an atomic shared pointer or like
    /// it: test(), copy().
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
