#pragma once

// append, the fragmentation driver: its command line and its run.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "load/core/thread_team.h"
#include "load/generators/group_options.h"

namespace kv::load {

/// Command line of append.
struct AppendOptions {
    ConnectionFlags connection;
    GroupFlags group;
    std::uint64_t sliceOps = 1000;  // read-modify-writes; of a group
    std::uint64_t items = 100'000;
    std::uint32_t rounds = 5;
    std::uint64_t seed = 0;
    std::uint32_t inFlight = 100;  // over all threads
    std::uint32_t threads = 1;     // one connection each
    std::uint32_t vbuckets = 0;    // 0: ask the server
    std::uint32_t fieldsMin = 11;
    std::uint32_t fieldsMax = 22;
    bool progress = false;
};

/// Returns -1 to continue, otherwise the exit status.
int parseAppend(int argc, const char* const* argv, AppendOptions& options);

/// Runs the whole append workload: connect, load, rounds of passes, report. Fills `report` with the
/// measurements even if it was interrupted or failed.
RunResult runAppend(const AppendOptions& options, nlohmann::ordered_json& report);

}  // namespace kv::load
