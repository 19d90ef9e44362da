// The whole work of a conductor: starts the variants in the plan's order, selects the benchmarks,
// runs their rounds, ends the variants, and writes one document about it.
#pragma once

#include <string>

#include "slices/plan.h"

namespace kv::slices {

struct Outcome {
    std::string document;  ///< JSON (README.md); after a failure the part that was complete before
    std::string failure;   ///< empty if there was none
    int signal{0};         ///< the signal that interrupted it; 0 if none
};

/// Runs the plan. Errors: does not throw for failures of a variant; throws std::system_error if
/// this process cannot continue. Threads: blocks SIGINT and SIGTERM in the calling thread, so call
/// it before there are others. No variant is alive when it returns.
Outcome conduct(const Plan& plan);

}  // namespace kv::slices
