// The memory of striped statistics, computed from the types: the table of
// docs/experiments/hashtable-stats-striping.md (a test of the project compares the two).
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "bucket/hash_table.h"

namespace kv {
namespace {

struct Cost {
    unsigned cpus, caches;
    size_t single, perCache, perCore, perCorePadded;  // bytes per vBucket
};

constexpr Cost kCosts[] = {
        {2, 1, 112, 112, 224, 256},
        {24, 2, 112, 224, 2688, 3072},
        {64, 8, 112, 896, 7168, 8192},
        {128, 16, 112, 1792, 14336, 16384},
};

options::Topology machine(const Cost& cost) {
    std::vector<unsigned> cacheOfCpu(cost.cpus);
    for (unsigned cpu = 0; cpu < cost.cpus; ++cpu) {
        cacheOfCpu[cpu] = cpu * cost.caches / cost.cpus;
    }
    return options::Topology(cacheOfCpu);
}

template <class Policy>
size_t bytes(const options::Topology& topology) {
    return BasicHashTable<Policy>({}, topology).statsBytes();
}

TEST(HashTableMemory, OfStripesAtManyCpus) {
    for (const Cost& cost : kCosts) {
        const options::Topology topology = machine(cost);
        EXPECT_EQ(bytes<options::SingleHtStats<false>>(topology), cost.single) << cost.cpus;
        EXPECT_EQ(bytes<options::LlcHtStats<false>>(topology), cost.perCache) << cost.cpus;
        EXPECT_EQ(bytes<options::CoreHtStats<false>>(topology), cost.perCore) << cost.cpus;
        EXPECT_EQ(bytes<options::CoreHtStats<true>>(topology), cost.perCorePadded) << cost.cpus;
    }
}

}  // namespace
}  // namespace kv
