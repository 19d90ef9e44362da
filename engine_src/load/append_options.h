#pragma once

#include <cstdint>

#include "load/ensemble_options.h"

namespace kv::load {

/// Command line of append, the fragmentation driver.
struct AppendOptions {
    ConnectionFlags connection;
    EnsembleFlags ensemble;
    std::uint64_t sliceOps = 1000;  // read-modify-writes; of an ensemble
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

/// Gives -1 to go on, else the exit status.
int parseAppend(int argc, const char* const* argv, AppendOptions& options);

}  // namespace kv::load
