// STAT groups about single vBuckets and single documents: "vbucket", "vbucket-details",
// "vbucket-seqno", "failovers", "checkpoint" (each for all vBuckets, or with a number for one:
// "failovers 7"), and "key NAME VBUCKET".
//
// Threads: any front-end thread. The groups without a number visit every vBucket: they are for
// operators, not for polling.
#pragma once

#include <optional>
#include <string_view>

#include "server/stats/stats.h"

namespace kv::server {

/// `group` as the client sent it. Returns nothing if it is none of these.
std::optional<StatAnswer> vbucketStats(ServerContext& server, std::string_view group);

}  // namespace kv::server
