// The registry of --param: every tunable with its name, range, default and meaning, in one table.
//
// A parameter is text on the command line, a number in EngineParams, and text again in STAT config.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/bucket_config.h"
#include "dcp/limits.h"
#include "persistence/config.h"
#include "server/settings.h"

namespace kv::server {

/// The values of all parameters, with their defaults.
struct EngineParams {
    ServerSettings server;
    BucketConfig bucket;
    RocksConfig rocks;
    FlusherConfig flusher;
    std::string fsync{"never"};
    std::chrono::nanoseconds fsyncInterval{std::chrono::seconds(1)};
    uint32_t expiryPassSeconds{60};
    uint32_t hashResizeMillis{1000};
    uint32_t tombstonePurgeSeconds{10};
    uint32_t dcpSnapshotIntervalUs{500};
    dcp::BackfillLimits backfills;
    dcp::ConnectionLimits dcpConnections;
};

/// The name is unknown or the value is out of range; the text names the nearest parameter or the
/// range.
class ParamError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Param {
    std::string name;
    std::string range;  ///< "1..1000000"
    std::string description;
    std::function<void(EngineParams&, std::string_view)>
            set;  ///< throws ParamError, whose text lacks the name
    std::function<std::string(const EngineParams&)> get;
};

/// Returns the table in the order of --help.
const std::vector<Param>& paramTable();

/// Applies `setting`, which is "name=value". Throws ParamError.
void applyParam(EngineParams& params, std::string_view setting);

}  // namespace kv::server
