// The build settings of this binary, read from the policy types themselves: the settings check
// compares them with the requested ones.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kv::options {

/// Returns every build switch with its value as options/switches.json spells it, e.g. {"ht_stats",
/// "core"}; and {"type", ...}, the CMake build type. The allocator is not among them: it is linked,
/// and reports about itself (allocators/allocator.h).
std::vector<std::pair<std::string, std::string>> buildInfo();

}  // namespace kv::options
