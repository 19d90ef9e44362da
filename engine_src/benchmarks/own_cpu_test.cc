#include "benchmarks/own_cpu.h"

#include <gtest/gtest.h>

namespace kv::bench {
namespace {

cpu_set_t allowed() {
    cpu_set_t cpus;
    EXPECT_EQ(::sched_getaffinity(0, sizeof cpus, &cpus), 0);
    return cpus;
}

TEST(OwnCpu, EachThreadHasItsOwnCpuAndReturnsIt) {
    const cpu_set_t before = allowed();
    const int cpus = CPU_COUNT(&before);
    cpu_set_t together;
    CPU_ZERO(&together);
    for (int thread = 0; thread < cpus; ++thread) {
        const OwnCpu own(thread, cpus);
        const cpu_set_t now = allowed();
        EXPECT_EQ(CPU_COUNT(&now), 1);
        CPU_OR(&together, &together, &now);
    }
    EXPECT_TRUE(CPU_EQUAL(&together, &before));
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

TEST(OwnCpu, MoreThreadsThanCpusAreSpreadEvenly) {
    const cpu_set_t before = allowed();
    const int cpus = CPU_COUNT(&before);
    EXPECT_EQ(usableCpus(), cpus);
    if (cpus < 2) {
        GTEST_SKIP() << "this needs two CPUs";
    }
    for (int thread = 0; thread < cpus; ++thread) {
        cpu_set_t first;
        {
            const OwnCpu own(thread, 2 * cpus);
            first = allowed();
        }
        const OwnCpu own(thread + cpus, 2 * cpus);
        const cpu_set_t second = allowed();
        EXPECT_EQ(CPU_COUNT(&first), 1) << thread;
        EXPECT_TRUE(CPU_EQUAL(&first, &second)) << thread;
    }
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

TEST(OwnCpu, OneThreadIsLeftWhereItIs) {
    const cpu_set_t before = allowed();
    const OwnCpu own(0, 1);
    const cpu_set_t now = allowed();
    EXPECT_TRUE(CPU_EQUAL(&now, &before));
}

}  // namespace
}  // namespace kv::bench
