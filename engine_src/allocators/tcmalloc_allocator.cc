// tcmalloc of gperftools, a shared library of the system (libtcmalloc_minimal.so.4).
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "allocators/allocator.h"
#include "allocators/in_effect.h"

// Declared here, so that the library's package is enough: the package with the headers is large.
extern "C" {
const char* tc_version(int* major, int* minor, const char** patch);
int MallocExtension_GetOwnership(const void* block);
int MallocExtension_GetNumericProperty(const char* property, size_t* value);
void MallocExtension_ReleaseFreeMemory(void);
}

namespace kv::allocator {
namespace {

constexpr int kOwned = 1;  // of MallocExtension_Ownership

bool serves(const Way& way) {
    void* block = way.allocate();
    const bool own = MallocExtension_GetOwnership(block) == kOwned;
    if (own) {
        way.release(block);
    }
    return own;
}

std::optional<uint64_t> figure(const char* property) {
    size_t value = 0;
    if (MallocExtension_GetNumericProperty(property, &value) == 0) {
        return std::nullopt;
    }
    return value;
}

std::optional<uint64_t> difference(std::optional<uint64_t> from, std::optional<uint64_t> part) {
    if (!from || !part) {
        return std::nullopt;
    }
    return *from - std::min(*from, *part);
}

// The variables of tcmalloc that it can report, by the name of the property.
constexpr std::array<std::pair<const char*, const char*>, 3> kOptions{
        {{"opt.max_total_thread_cache_bytes", "tcmalloc.max_total_thread_cache_bytes"},
         {"opt.aggressive_decommit", "tcmalloc.aggressive_memory_decommit"},
         {"opt.heap_limit_mb", "tcmalloc.heap_limit_mb"}}};

}  // namespace

std::string name() {
    return nameInEffect("tcmalloc", serves);
}

std::string version() {
    int major = 0;
    int minor = 0;
    const char* patch = nullptr;
    return tc_version(&major, &minor, &patch);
}

/// tcmalloc reads one variable for each option: TCMALLOC_HEAP_LIMIT_MB.
std::string confEnv() {
    return "TCMALLOC_*";
}

std::vector<std::pair<std::string, std::string>> options() {
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& [option, property] : kOptions) {
        if (const auto value = figure(property)) {
            found.emplace_back(option, std::to_string(*value));
        }
    }
    return found;
}

Stats stats() {
    Stats stats;
    const auto heap = figure("generic.heap_size");
    stats.allocated = figure("generic.current_allocated_bytes");
    stats.resident = figure("generic.total_physical_bytes");
    stats.retained = figure("tcmalloc.pageheap_unmapped_bytes");
    stats.mapped = difference(heap, stats.retained);
    stats.metadata = difference(stats.resident, stats.mapped);
    return stats;
}

void purge() {
    MallocExtension_ReleaseFreeMemory();
}

}  // namespace kv::allocator
