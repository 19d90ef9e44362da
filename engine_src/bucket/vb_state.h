// State of a vBucket on this node.
#pragma once

#include <cstdint>
#include <string_view>

namespace kv {

enum class VbState : uint8_t {
    Active = 1,   ///< serves clients
    Replica = 2,  ///< follows an active copy elsewhere
    Pending = 3,  ///< a takeover is in progress
    Dead = 4,     ///< not here
};

constexpr std::string_view toString(VbState state) {
    switch (state) {
        case VbState::Active:
            return "active";
        case VbState::Replica:
            return "replica";
        case VbState::Pending:
            return "pending";
        case VbState::Dead:
            return "dead";
    }
    return "unknown";
}

}  // namespace kv
