// The STAT groups: every figure the server gives about itself, as text.
//
// Called on any front-end thread; readings of other threads' counters are relaxed, so sums are
// exact only when quiet.
#pragma once

#include <optional>
#include <string_view>

#include "server/server_context.h"

namespace kv::server {

/// Keys and values of `group`; nothing when there is no such group. "reset" zeroes counters and
/// timings.
std::optional<KeyValues> collectStats(ServerContext& server, std::string_view group);

}  // namespace kv::server
