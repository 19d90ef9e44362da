// BackfillLimits: the resources that the backfills of a node may use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv::dcp {

struct BackfillLimits {
    uint32_t idleSeconds{30};  ///< an open scan that has not advanced for this long is closed
    /// An open scan is closed after this time; its stream opens a new one.
    uint32_t ageSeconds{60};
    size_t perConnection{16};  ///< open scans of one connection
    size_t perNode{256};       ///< open scans of all connections
};

}  // namespace kv::dcp
