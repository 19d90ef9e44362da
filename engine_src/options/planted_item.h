// The part of build switch ENGINE_PLANTED (planted.h) that items see: bytes that each StoredValue's
// block is too long by. A header of its own, so that the other faults do not recompile the bucket.
#pragma once

#include <cstddef>

namespace kv::options {

struct NoItemFault {
    static constexpr size_t kBytes = 0;
};

/// jemalloc's size classes are 16 bytes apart up to 128, glibc's everywhere: always one class more.
struct SixteenBytesMore {
    static constexpr size_t kBytes = 16;
};

}  // namespace kv::options
