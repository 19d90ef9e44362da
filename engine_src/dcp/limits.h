// The resources of a node that DCP clients may use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv::dcp {

/// The DCP connections that a node serves. Every mutation notifies each of them, so a client that
/// opens many slows all writers down.
struct ConnectionLimits {
    size_t perNode{256};
    size_t perUser{64};  ///< of them; a user without a name is not limited
};

struct BackfillLimits {
    uint32_t idleSeconds{30};  ///< an open scan that has not advanced for this long is closed
    /// An open scan is closed after this time; its stream opens a new one.
    uint32_t ageSeconds{60};
    size_t perConnection{16};  ///< open scans of one connection
    size_t perNode{256};       ///< open scans of all connections
};

}  // namespace kv::dcp
