#pragma once

// consistency_checker, which accounts for acknowledged writes: its command line and its run.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "load/core/socket.h"
#include "load/core/thread_team.h"
#include "load/generators/common_options.h"

namespace kv::load {

/// Command line of consistency_checker. Names are those of pillowfight if they mean the same.
struct ConsistencyCheckerOptions {
    ConnectionFlags connection;
    std::uint64_t items = 1000;
    std::uint64_t startAt = 0;  // number of the first key
    std::uint32_t threads = 1;
    std::uint32_t connections = 1;  // per thread, to each server
    std::uint32_t batch = 100;
    double setPercent = 33;
    std::uint32_t minSize = 256;
    std::uint32_t maxSize = 256;
    std::uint64_t seed = 0;
    std::uint32_t vbuckets = 0;  // 0: ask the server
    double duration = 0;         // seconds; 0: until SIGTERM
    double ramp = 0;             // seconds
    std::string begun;           // file that is written when the mixed phase begins; empty: none
    std::optional<Address> barrier;
};

/// Returns -1 to continue, otherwise the exit status.
int parseConsistencyChecker(int argc, const char* const* argv, ConsistencyCheckerOptions& options);

/// Runs a load that follows the cluster's map and accounts for its writes: reads every document,
/// loads them, reads them again, and reports. SIGTERM ends the mixed phase; in another phase it
/// interrupts the run. Fills `report` with the findings even if it was interrupted or failed.
RunResult runConsistencyChecker(const ConsistencyCheckerOptions& options,
                                nlohmann::ordered_json& report);

}  // namespace kv::load
