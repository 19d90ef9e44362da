// Expiry times on the wire: 0 means never; up to 30 days is relative, in seconds; above that it is
// seconds since the epoch.
#pragma once

#include <cstdint>

#include "bucket/op_result.h"

namespace kv::server {

inline constexpr uint32_t kMaxRelativeExpiry = 30 * 24 * 3600;

/// Returns the bucket's form: 0 or absolute seconds. A relative time ends no earlier than requested
/// and less than a second later. From then on it is wall-clock time, because it is stored and
/// replicated: if the clock is set, the remaining time changes by as much.
constexpr uint32_t absoluteExpiry(uint32_t wire, const OpTime& now) {
    return wire == 0 || wire > kMaxRelativeExpiry ? wire : now.inSeconds(wire);
}

}  // namespace kv::server
