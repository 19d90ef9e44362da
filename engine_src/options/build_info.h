// What this binary was built with, read from the policy types themselves: the proof step compares
// it with what was asked.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kv::options {

/// Every build switch with its value as options/switches.json spells it, e.g. {"ht_stats", "core"};
/// and {"type", ...}, the CMake build type. The allocator is not among them: it is linked, and
/// speaks for itself (allocators/allocator.h).
std::vector<std::pair<std::string, std::string>> buildInfo();

}  // namespace kv::options
