#pragma once

// An operation that a plan requests: a GET, SET or DELETE of one document, independent of the
// protocol.

#include <cstdint>

#include "load/core/recorder.h"

namespace kv::load {

struct Operation {
    OpKind kind = OpKind::kGet;
    std::uint64_t number = 0;  // of the key
    std::uint32_t size = 0;    // of the value of a SET
    std::uint64_t word = 0;    // the word of the value: see ValueSource
};

}  // namespace kv::load
