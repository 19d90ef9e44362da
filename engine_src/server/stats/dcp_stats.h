// STAT dcp (every connection and stream) and dcpagg (sums over connections).
#pragma once

#include "dcp/dcp_node.h"
#include "server/server_context.h"

namespace kv::server {

KeyValues dcpStats(const dcp::DcpNode& node);
KeyValues dcpAggregateStats(const dcp::DcpNode& node);

}  // namespace kv::server
