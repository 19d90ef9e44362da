#include "benchmarks/own_cpu.h"

#include <gtest/gtest.h>

namespace kv::bench {
namespace {

cpu_set_t allowed() {
    cpu_set_t cpus;
    EXPECT_EQ(::sched_getaffinity(0, sizeof cpus, &cpus), 0);
    return cpus;
}

TEST(OwnCpu, EachThreadHasAnotherAndGivesItBack) {
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

TEST(OwnCpu, OneThreadAndTooManyAreLeftWhereTheyAre) {
    const cpu_set_t before = allowed();
    for (const int threads : {1, CPU_COUNT(&before) + 1}) {
        const OwnCpu own(0, threads);
        const cpu_set_t now = allowed();
        EXPECT_TRUE(CPU_EQUAL(&now, &before)) << threads;
    }
}

}  // namespace
}  // namespace kv::bench
