// What the process's allocator reports about itself. Only the settings check and the memory
// statistics read it.
//
// One implementation is linked per program (system_allocator.cc or that of another family); callers
// cannot tell which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv::allocator {

/// Process-wide figures in bytes. A figure that this allocator does not provide is empty, never 0.
struct Stats {
    std::optional<uint64_t> allocated;  ///< handed out to the program
    std::optional<uint64_t> active;     ///< pages that hold at least one allocation
    std::optional<uint64_t> metadata;   ///< the allocator's own bookkeeping
    std::optional<uint64_t> resident;   ///< the allocator's own estimate of its resident pages
    std::optional<uint64_t>
            mapped;  ///< address space in use (jemalloc stats.mapped; glibc arena + hblkhd;
                     ///< committed bytes of mimalloc; heap without unmapped pages of tcmalloc)
    std::optional<uint64_t> retained;     ///< unmapped logically, kept as address space for reuse
    std::optional<uint64_t> metadataThp;  ///< number of 2 MiB huge pages backing metadata
};

/// The name as given at build time, e.g. "jemalloc-5.1.0" or "system". If the process allocates
/// with something else, a text such as "malloc of libother.so.1" (see in_effect.h).
std::string name();

/// The version as the allocator reports it, e.g. "5.1.0-0-g61efbda7..." or "glibc 2.36".
std::string version();

/// Environment variable that carries the options string, or the pattern of one variable for each
/// option ("MIMALLOC_*"); empty when the allocator takes none.
std::string confEnv();

/// Returns every option that this allocator knows, with its current value ("opt.narenas" -> "8").
std::vector<std::pair<std::string, std::string>> options();

/// Returns fresh figures. Thread-safe; costs microseconds (jemalloc merges its arenas).
Stats stats();

/// Returns free pages to the system at once if the allocator can (jemalloc purge, glibc
/// malloc_trim, mimalloc mi_collect, tcmalloc ReleaseFreeMemory).
void purge();

}  // namespace kv::allocator
