// Expiry times on the wire: 0 = never; up to 30 days = seconds from now; above = seconds since the
// epoch.
#pragma once

#include <cstdint>

#include "bucket/op_result.h"

namespace kv::server {

inline constexpr uint32_t kMaxRelativeExpiry = 30 * 24 * 3600;

/// As the bucket wants it: 0 or absolute seconds.
constexpr uint32_t absoluteExpiry(uint32_t wire, const OpTime& now) {
    return wire == 0 || wire > kMaxRelativeExpiry ? wire : now.seconds + wire;
}

}  // namespace kv::server
