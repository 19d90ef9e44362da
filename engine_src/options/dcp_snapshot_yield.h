// Build switch ENGINE_DCP_SNAPSHOT_YIELD: the number of vBuckets that the producer's snapshot task
// serves before it yields.
#pragma once

#include <cstddef>
#include <string_view>

#include "options/digits.h"

namespace kv::options {

/// Snapshots that one run of the task may make (historic: 10, then 256).
template <size_t Limit>
struct SnapshotYield {
    static constexpr std::string_view kName = kDigits<Limit>;
    static constexpr size_t kLimit = Limit;
};

}  // namespace kv::options
