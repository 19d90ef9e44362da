#pragma once

// Memory and CPU time of another process according to the kernel. Linux /proc; bytes and seconds.

#include <cstdint>
#include <optional>
#include <string>

namespace kv::load {

struct ProcessUsage {
    // /proc/PID/smaps_rollup. The kernel walks the page tables for it: about 14 ms per GB of 4 KiB
    // pages (measured on a VM), holding the process' mmap lock for reading.
    std::uint64_t rss = 0;
    std::uint64_t pss = 0;
    /// The part of pss that maps files: a page counts less if more processes run the same file.
    /// Absent if the kernel does not report it (before 5.4).
    std::optional<std::uint64_t> pssFile;
    std::uint64_t lazyFree = 0;
    std::uint64_t anonHuge = 0;
    // /proc/PID/stat
    std::uint64_t vsz = 0;
    double cpuUser = 0;
    double cpuSystem = 0;
    std::uint64_t threads = 0;
    /// Address space reserved for the stacks of threads other than the main one: mappings that
    /// follow a guard page and are as large as a default stack. Absent if /proc/PID/maps is not
    /// readable.
    std::optional<std::uint64_t> stacksVsz;
};

/// Throws LoadError if the process is gone or may not be read.
ProcessUsage readUsage(int pid);

// --- the parsers, for tests ---
/// Fills the smaps_rollup figures; returns false if a figure is missing.
bool parseSmapsRollup(const std::string& text, ProcessUsage& usage);
/// Fills the figures of stat; returns false if malformed. The name in parentheses may contain
/// anything.
bool parseStat(const std::string& text, double ticksPerSecond, ProcessUsage& usage);
/// Returns the sum of the stack mappings in the text of /proc/PID/maps.
std::uint64_t stackBytes(const std::string& maps, std::uint64_t stackSize, std::uint64_t pageSize);

}  // namespace kv::load
