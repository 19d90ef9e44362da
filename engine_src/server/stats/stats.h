// The STAT groups: every figure of the server, as text.
//
// Threads: any. Counters of other threads are read relaxed, so sums are exact only when the server
// is idle.
#pragma once

#include <string_view>

#include "protocol/status.h"
#include "server/server_context.h"

namespace kv::server {

/// The answer to a requested group: its figures, or why there are none.
struct StatAnswer {
    protocol::Status status{protocol::Status::kSuccess};
    KeyValues values{};
};

/// Returns keys and values of `group`; KeyEnoent if there is no such group. "reset" zeroes counters
/// and timings; "detail on" and "detail off" switch the counting by prefix.
StatAnswer collectStats(ServerContext& server, std::string_view group);

}  // namespace kv::server
