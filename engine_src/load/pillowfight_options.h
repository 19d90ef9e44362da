#pragma once

#include <optional>
#include <string>

#include "load/access_plan.h"
#include "load/batch_traffic.h"
#include "load/common_options.h"
#include "load/ensemble_options.h"

namespace kv::load {

/// Command line of pillowfight. Names follow cbc-pillowfight where they mean the same.
struct PillowfightOptions {
    ConnectionFlags connection;
    EnsembleFlags ensemble;
    double slice = 0.002;  // seconds; of an ensemble
    AccessOptions access;
    std::uint32_t threads = 1;
    std::uint32_t connections = 1;  // per thread
    std::uint32_t window = 0;       // 0: 1, or 64 with a rate
    std::uint32_t minSize = 50;
    std::uint32_t maxSize = 5120;
    bool noPopulation = false;
    bool populateOnly = false;
    bool json = false;
    bool progress = false;
    std::string keyPrefix;
    std::uint32_t expiry = 0;
    std::uint32_t vbuckets = 0;      // 0: ask the server
    double duration = 0;             // seconds; 0: no limit
    double ramp = 0;                 // seconds
    std::optional<Address> barrier;  // where the mixed phases of several processes begin together

    std::uint32_t effectiveWindow() const {
        return window != 0 ? window : access.rate > 0 ? 64 : 1;
    }
};

/// Gives -1 to go on, else the exit status.
int parsePillowfight(int argc, const char* const* argv, PillowfightOptions& options);

}  // namespace kv::load
