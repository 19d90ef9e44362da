// invariant(): a condition that what is stored and replicated rests on, checked in every build,
// also where assert() is compiled out. For what costs next to nothing; what costs more is an
// assert().
#pragma once

#include <cstdio>
#include <cstdlib>

namespace kv {

/// Ends the process when it does not hold, and says what: to go on would lose or mix up documents.
/// Allocates nothing, takes no lock. (Not std::source_location: clang 14 has none.)
inline void invariant(bool holds, const char* what, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
    if (!holds) [[unlikely]] {
        std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
        std::abort();
    }
}

}  // namespace kv
