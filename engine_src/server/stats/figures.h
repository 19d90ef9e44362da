// What the files of STAT groups share: how a figure is written, and the groups that stats.cc takes
// from other files.
//
// Threads: any.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "server/stats/stats.h"

namespace kv::server {

/// Adds a figure as text.
template <class Value>
void addFigure(KeyValues& out, std::string_view key, const Value& value) {
    out.emplace_back(key, fmt::format("{}", value));
}

/// Returns a group about single vBuckets or documents: "vbucket", "vbucket-details",
/// "vbucket-seqno", "failovers", "checkpoint" (each for all vBuckets, or with a number for one:
/// "failovers 7"), or "key NAME VBUCKET". `group` is as the client sent it; nothing if it is none
/// of these. The groups without a number visit every vBucket: they are for operators, not for
/// polling.
std::optional<StatAnswer> vbucketStats(ServerContext& server, std::string_view group);

/// STAT dcp: every connection and stream.
KeyValues dcpStats(const dcp::DcpNode& node);
/// STAT dcpagg: sums over connections.
KeyValues dcpAggregateStats(const dcp::DcpNode& node);

}  // namespace kv::server
