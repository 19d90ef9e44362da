// The part of build switch ENGINE_INJECTED (injected.h) that items see: the extra bytes of each
// StoredValue's block. A separate header, so that the other faults do not recompile the bucket.
#pragma once

#include <cstddef>

namespace kv::options {

struct NoItemFault {
    static constexpr size_t kBytes = 0;
};

/// jemalloc's size classes are 16 bytes apart up to 128, glibc's everywhere: this is always one
/// more class.
struct SixteenBytesMore {
    static constexpr size_t kBytes = 16;
};

}  // namespace kv::options
