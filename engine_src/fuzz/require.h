// require(): the check of a fuzz target; a libFuzzer program reports an abort as a crash.
#pragma once

#include <cstdlib>

inline void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}
