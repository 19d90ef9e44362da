// The messages of a DCP producer as frames of the wire say them.
#pragma once

#include "dcp/message.h"
#include "protocol/frame.h"

namespace kv::server {

/// Of a request that has passed protocol::validate(). Allocates under the caller's guard. Throws
/// std::runtime_error when a producer does not send such.
dcp::Message toMessage(const protocol::FrameView& frame);

}  // namespace kv::server
