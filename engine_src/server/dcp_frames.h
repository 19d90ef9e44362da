// DCP messages as frames in a connection's output.
#pragma once

#include "dcp/message.h"
#include "server/byte_buffer.h"

namespace kv::server {

/// Appends the frame of `message`: message.wireSize() bytes.
void appendDcpMessage(ByteBuffer& out, const dcp::Message& message);
/// Appends a producer's noop.
void appendDcpNoop(ByteBuffer& out);

}  // namespace kv::server
