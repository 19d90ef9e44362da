// SnapshotRange: a closed interval of seqnos that is consistent only as a whole.
#pragma once

#include "types/ids.h"

namespace kv {

struct SnapshotRange {
    Seqno start{};
    Seqno end{};
    friend bool operator==(const SnapshotRange&, const SnapshotRange&) = default;
};

}  // namespace kv
