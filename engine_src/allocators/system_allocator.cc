// glibc's malloc. It has no interface to read its tunables back, so it takes no options here.
#include <gnu/libc-version.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "allocators/allocator.h"
#include "allocators/in_effect.h"

namespace kv::allocator {
/// Also reports a preloaded library (LD_PRELOAD, /etc/ld.so.preload) that brings its own malloc.
std::string name() {
    // glibc's, by its new and its old name, and the sanitizers', which no measured build has
    constexpr std::array<std::string_view, 5> kExpected{"libc.so", "libc-", "libasan.", "libtsan.",
                                                        "libclang_rt."};
    const std::string library = libraryOf("malloc");
    const bool expected = std::any_of(kExpected.begin(), kExpected.end(),
                                      [&](auto start) { return library.starts_with(start); });
    return expected ? "system" : "malloc of " + library;
}

std::string version() {
    return std::string("glibc ") + gnu_get_libc_version();
}

std::string confEnv() {
    return {};
}

std::vector<std::pair<std::string, std::string>> options() {
    return {};
}

Stats stats() {
    const struct mallinfo2 info = mallinfo2();
    Stats stats;
    stats.allocated = info.uordblks + info.hblkhd;
    stats.mapped = info.arena + info.hblkhd;
    return stats;
}

void purge() {
    malloc_trim(0);
}

}  // namespace kv::allocator
