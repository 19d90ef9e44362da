// invariant(): a condition on which stored and replicated data depends, checked in every build,
// also if assert() is compiled out. For checks that cost next to nothing; use assert() for others.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace kv {

/// Ends the process with a message if the condition is false, because continuing would lose or mix
/// up documents. Allocates nothing, takes no lock. (Not std::source_location: clang 14 has none.)
inline void invariant(bool holds, const char* what, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
    if (!holds) [[unlikely]] {
        std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
        std::abort();
    }
}

}  // namespace kv
