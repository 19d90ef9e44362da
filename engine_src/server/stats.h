// The STAT groups: every figure the server gives about itself, as text.
//
// Called on any thread; readings of other threads' counters are relaxed, so sums are
// exact only when quiet.
#pragma once

#include <string_view>

#include "protocol/status.h"
#include "server/server_context.h"

namespace kv::server {

/// A group that was asked for: its figures, or why there are none.
struct StatAnswer {
    protocol::Status status{protocol::Status::kSuccess};
    KeyValues values{};
};

/// Keys and values of `group`; KeyEnoent when there is no such group. "reset" zeroes counters and
/// timings, "detail on" and "detail off" switch the counting by prefix.
StatAnswer collectStats(ServerContext& server, std::string_view group);

}  // namespace kv::server
