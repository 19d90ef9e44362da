// Decodes the messages and the failover logs of a DCP producer from frames of the wire.
#pragma once

#include <vector>

#include "bucket/failover_log.h"
#include "dcp/message.h"
#include "protocol/frame.h"

namespace kv::server {

/// Converts a request that has passed protocol::validate(). Allocates under the caller's guard.
/// Throws std::runtime_error if a producer never sends such a frame.
dcp::Message toMessage(const protocol::FrameView& frame);
/// Converts a failover log, which is the answer to a stream request or to a request for the log.
/// Throws std::runtime_error if it is malformed.
std::vector<FailoverEntry> toFailoverLog(protocol::Bytes bytes);

}  // namespace kv::server
