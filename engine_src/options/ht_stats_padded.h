// Build switch ENGINE_HT_STATS_PADDED: whether each stripe of a hash table's statistics
// (ht_stats.h) is padded to separate cache lines.
#pragma once

#include <string_view>

namespace kv::options {

struct PaddedStripes {
    static constexpr std::string_view kName = "on";
    static constexpr bool kPadded = true;
};

struct PackedStripes {
    static constexpr std::string_view kName = "off";
    static constexpr bool kPadded = false;
};

}  // namespace kv::options
