// DCP messages as frames in a connection's output.
#pragma once

#include "dcp/message.h"
#include "server/output.h"

namespace kv::server {

/// Appends the frame of `message`: message.wireSize() bytes.
void appendDcpMessage(Output& out, const dcp::Message& message);
/// Appends a producer's noop.
void appendDcpNoop(Output& out);

}  // namespace kv::server
