// invariant(): a condition that what is stored and replicated rests on, checked in every build,
// also where assert() is compiled out. For what costs next to nothing; what costs more is an
// assert().
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace kv {

/// Ends the process when it does not hold, and says what: to go on would lose or mix up documents.
/// Allocates nothing, takes no lock.
inline void invariant(bool holds, const char* what,
                      std::source_location where = std::source_location::current()) {
    if (!holds) [[unlikely]] {
        std::fprintf(stderr, "%s:%u: broken invariant: %s\n", where.file_name(),
                     static_cast<unsigned>(where.line()), what);
        std::abort();
    }
}

}  // namespace kv
