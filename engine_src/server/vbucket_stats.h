// STAT groups about single vBuckets and single documents: "vbucket", "vbucket-details",
// "vbucket-seqno", "failovers", "checkpoint" (each for all vBuckets, or with a number for one:
// "failovers 7"), and "key NAME VBUCKET".
//
// Called on any front-end thread. The groups without a number visit every vBucket: for operators,
// not for a loop.
#pragma once

#include <optional>
#include <string_view>

#include "server/stats.h"

namespace kv::server {

/// `group` as the client sent it. Nothing when it is none of these.
std::optional<StatAnswer> vbucketStats(ServerContext& server, std::string_view group);

}  // namespace kv::server
