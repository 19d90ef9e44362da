// The output of a conversation that has no socket.
#pragma once

#include <functional>

#include "protocol/frame.h"

namespace kv::server {

/// Takes a frame: its bytes are copied before the call returns.
using FrameSink = std::function<void(const protocol::FrameSpec&)>;

}  // namespace kv::server
