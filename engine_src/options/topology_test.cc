#include "options/topology.h"

#include <gtest/gtest.h>

#include <set>

#include "options/current_cpu.h"
#include "options/ht_stats.h"

namespace kv::options {

TEST(Topology, DetectsThisMachine) {
    const Topology topology = Topology::detect();
    EXPECT_GE(topology.cpus(), 1u);
    EXPECT_GE(topology.lastLevelCaches(), 1u);
    EXPECT_LE(topology.lastLevelCaches(), topology.cpus());
    EXPECT_LT(currentCpu(), topology.cpus());
}

TEST(Topology, RenumbersCachesAndOrdersCpusByCache) {
    const Topology topology({7, 3, 7, 3});  // even CPUs on one cache, odd ones on the other
    EXPECT_EQ(topology.lastLevelCaches(), 2u);
    EXPECT_EQ(topology.cacheOf(0), topology.cacheOf(2));
    EXPECT_NE(topology.cacheOf(0), topology.cacheOf(1));
    EXPECT_EQ(topology.localityOf(0), 0u);
    EXPECT_EQ(topology.localityOf(2), 1u);
    EXPECT_EQ(topology.localityOf(1), 2u);
    EXPECT_EQ(topology.localityOf(3), 3u);
    EXPECT_EQ(topology.cacheOf(99), 0u);
}

TEST(HtStats, StripesFollowTheTopology) {
    const Topology topology({0, 0, 1, 1});
    EXPECT_EQ(SingleHtStats<false>::stripes(topology), 1u);
    EXPECT_EQ(LlcHtStats<false>::stripes(topology), 2u);
    EXPECT_EQ(CoreHtStats<false>::stripes(topology), 4u);
    using Fixed2 = FixedHtStats<2, false>;
    EXPECT_EQ(Fixed2::stripes(topology), 2u);
    EXPECT_EQ(Fixed2::kName, "2");
    EXPECT_EQ((FixedHtStats<1024, true>::kName), "1024");
    EXPECT_EQ(Fixed2::stripeOf(topology, 1), 0u);
    EXPECT_EQ(Fixed2::stripeOf(topology, 2), 1u);
    std::set<unsigned> used;
    for (unsigned cpu = 0; cpu < 4; ++cpu) {
        used.insert(CoreHtStats<false>::stripeOf(topology, cpu));
    }
    EXPECT_EQ(used.size(), 4u);
}

TEST(HtStats, PaddingGivesEachStripeItsOwnCacheLines) {
    struct Counters {
        std::atomic<int64_t> one{0};
    };
    const Topology topology({0, 0, 0});
    EXPECT_EQ((CoreHtStats<false>::Store<Counters>(topology).bytes()), 3 * sizeof(Counters));
    EXPECT_EQ((CoreHtStats<true>::Store<Counters>(topology).bytes()), 3 * kCacheLine);
}

}  // namespace kv::options
