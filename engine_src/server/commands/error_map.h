// The error map: every status that this server can answer, with the attributes that clients act on.
// It is constant and can be read by any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace kv::server {

/// Returns JSON of version 1 or 2: the highest version that is not above `asked`.
std::string_view errorMapJson(uint16_t asked);

}  // namespace kv::server
