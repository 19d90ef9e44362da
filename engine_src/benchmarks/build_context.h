// The build settings of this program, as every report of a benchmark contains them:
// {"build.ht_stats", "core"}, {"allocator.name", "system"}. The settings check reads them back.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "allocators/allocator.h"
#include "options/build_info.h"

namespace kv::bench {

inline std::vector<std::pair<std::string, std::string>> buildContext() {
    std::vector<std::pair<std::string, std::string>> context;
    for (const auto& [option, value] : options::buildInfo()) {
        context.emplace_back("build." + option, value);
    }
    context.emplace_back("allocator.name", allocator::name());
    context.emplace_back("allocator.version", allocator::version());
    for (const auto& [option, value] : allocator::options()) {
        context.emplace_back("allocator." + option, value);
    }
    return context;
}

}  // namespace kv::bench
