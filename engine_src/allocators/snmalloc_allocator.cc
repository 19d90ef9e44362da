// snmalloc of any pinned version, through the functions that its crate exports (symbol prefix sn_).
#include <cstddef>
#include <string>
#include <string_view>

#include "allocators/allocator.h"
#include "allocators/in_effect.h"

extern "C" {
size_t sn_malloc_usable_size(const void* block);
void sn_rust_statistics(size_t* current, size_t* peak);
}

namespace kv::allocator {
namespace {

bool serves(const Way& way) {
    void* block = way.allocate();
    // 0 for memory that is not snmalloc's
    const bool own = sn_malloc_usable_size(block) >= kWaySize;
    if (own) {
        way.release(block);
    }
    return own;
}

}  // namespace

std::string name() {
    return nameInEffect(KV_ALLOCATOR_NAME, serves);
}

/// snmalloc does not report its version: this is the one that Cargo.lock pins.
std::string version() {
    constexpr std::string_view kName = KV_ALLOCATOR_NAME;
    return std::string(kName.substr(kName.find('-') + 1));
}

std::string confEnv() {
    return {};
}

/// snmalloc takes no options at run time.
std::vector<std::pair<std::string, std::string>> options() {
    return {};
}

Stats stats() {
    Stats stats;
    size_t current = 0;
    size_t peak = 0;
    sn_rust_statistics(&current, &peak);
    stats.mapped = current;
    return stats;
}

/// snmalloc has no function that returns free pages.
void purge() {}

}  // namespace kv::allocator
