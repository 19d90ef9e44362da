// Decodes the messages of a DCP producer from frames of the wire.
#pragma once

#include "dcp/message.h"
#include "protocol/frame.h"

namespace kv::server {

/// Converts a request that has passed protocol::validate(). Allocates under the caller's guard.
/// Throws std::runtime_error if a producer never sends such a frame.
dcp::Message toMessage(const protocol::FrameView& frame);

}  // namespace kv::server
