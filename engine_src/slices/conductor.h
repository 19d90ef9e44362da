// A conductor's whole work: the arms started in the plan's order, the benchmarks chosen, their
// rounds, the arms ended, and one document about it.
#pragma once

#include <string>

#include "slices/plan.h"

namespace kv::slices {

struct Outcome {
    std::string document;  ///< JSON (README.md); of a failure what was complete before
    std::string failure;   ///< empty: none
    int signal{0};         ///< that interrupted it; 0: none
};

/// Never throws for what an arm does; std::system_error when this process cannot go on. Blocks
/// SIGINT and SIGTERM in the calling thread: call it before there are others. No arm is alive when
/// it returns.
Outcome conduct(const Plan& plan);

}  // namespace kv::slices
