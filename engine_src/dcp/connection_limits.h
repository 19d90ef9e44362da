// ConnectionLimits: the DCP connections that a node serves. Every mutation notifies each of them,
// so a client that opens many slows all writers down.
#pragma once

#include <cstddef>

namespace kv::dcp {

struct ConnectionLimits {
    size_t perNode{256};
    size_t perUser{64};  ///< of them; a user without a name is not limited
};

}  // namespace kv::dcp
