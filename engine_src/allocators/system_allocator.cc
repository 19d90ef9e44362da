// glibc's malloc. It has no interface to read its tunables back, so it takes no options here.
#include <gnu/libc-version.h>
#include <malloc.h>

#include "allocators/allocator.h"

namespace kv::allocator {

std::string name() {
    return "system";
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
