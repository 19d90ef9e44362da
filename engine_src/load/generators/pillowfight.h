#pragma once

// pillowfight, the throughput and latency driver: its command line and its run.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "load/core/thread_team.h"
#include "load/generators/access_plan.h"
#include "load/generators/common_options.h"
#include "load/generators/group_options.h"

namespace kv::load {

/// Command line of pillowfight. Names are those of cbc-pillowfight if they mean the same.
struct PillowfightOptions {
    ConnectionFlags connection;
    GroupFlags group;
    double slice = 0.002;  // seconds; for a group
    AccessOptions access;
    std::uint32_t threads = 1;
    std::uint32_t connections = 1;  // per thread
    std::uint32_t window = 0;       // 0: 1, or 64 with a rate
    std::uint32_t minSize = 50;
    std::uint32_t maxSize = 5120;
    bool lognormal = false;  // sizes
    double share = 100;      // percent of the keys that the populate phase stores
    std::uint32_t draw = 0;  // which share: a churn draws several, one after the other
    bool remove = false;     // the populate phase deletes
    // Of keys, in bytes; 0: prefix and digits. Draws give a key another size.
    std::size_t minKeySize = 0;
    std::size_t maxKeySize = 0;
    std::uint32_t keyDraws = 0;
    bool noPopulation = false;
    bool populateOnly = false;
    bool json = false;
    bool progress = false;
    std::string keyPrefix;
    std::uint32_t expiry = 0;
    std::uint32_t vbuckets = 0;  // 0: ask the server
    // Compares every n-th value that a connection receives; 0: none.
    std::uint32_t verifyEvery = 64;
    double duration = 0;             // seconds; 0: no limit
    double ramp = 0;                 // seconds
    std::optional<Address> barrier;  // where the mixed phases of several processes begin together

    std::uint32_t effectiveWindow() const {
        return window != 0 ? window : access.rate > 0 ? 64 : 1;
    }
};

/// Returns -1 to continue, otherwise the exit status.
int parsePillowfight(int argc, const char* const* argv, PillowfightOptions& options);

/// Runs a whole pillowfight: connect, populate, mixed phase, report. Fills `report` with the
/// measurements even if it was interrupted or failed; the result tells which.
RunResult runPillowfight(const PillowfightOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
