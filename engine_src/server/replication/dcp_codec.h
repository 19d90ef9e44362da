// DCP messages as frames of the wire: a producer encodes them into a connection's output, a replica
// decodes them. Threads: any.
#pragma once

#include <vector>

#include "dcp/message.h"
#include "persistence/stored_types.h"
#include "protocol/frame.h"
#include "server/connections/output.h"

namespace kv::server {

/// Appends the frame of `message`, which has message.wireSize() bytes. Its item is charged to
/// `owner`: large values are shared, not copied.
void appendDcpMessage(Output& out, const dcp::Message& message, BucketMemory& owner);
/// Appends the no-op of a producer.
void appendDcpNoop(Output& out);

/// Converts a request that has passed protocol::validate(). Allocates under the caller's guard.
/// Throws std::runtime_error if a producer never sends such a frame.
dcp::Message toMessage(const protocol::FrameView& frame);
/// Converts a failover log, which is the answer to a stream request or to a request for the log.
/// Throws std::runtime_error if it is malformed.
std::vector<FailoverEntry> toFailoverLog(protocol::Bytes bytes);

}  // namespace kv::server
