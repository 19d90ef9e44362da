// Encodes DCP messages as frames in a connection's output.
#pragma once

#include "dcp/message.h"
#include "server/connections/output.h"

namespace kv::server {

/// Appends the frame of `message`, which has message.wireSize() bytes.
void appendDcpMessage(Output& out, const dcp::Message& message);
/// Appends the no-op of a producer.
void appendDcpNoop(Output& out);

}  // namespace kv::server
