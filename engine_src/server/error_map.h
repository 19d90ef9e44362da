// The error map: every status this server can answer, with the attributes clients act on. Constant;
// any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace kv::server {

/// JSON of version 1 or 2, whichever is the highest that is not above `asked` (2 for anything
/// later).
std::string_view errorMapJson(uint16_t asked);

}  // namespace kv::server
