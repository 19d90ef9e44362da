#include "load/core/host_topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <nlohmann/json.hpp>
#include <set>

namespace kv::load {
namespace {

std::set<int> cpusOf(const nlohmann::ordered_json& topology) {
    std::set<int> cpus;
    for (const auto& cpu : topology["cpus"]) {
        EXPECT_TRUE(cpu["core"].is_number_unsigned());
        EXPECT_TRUE(cpu["package"].is_number());
        EXPECT_TRUE(cpu["l3"].is_null() || cpu["l3"].is_number_unsigned());
        EXPECT_GE(cpu["numa"], 0);
        EXPECT_TRUE(cpus.empty() || *cpus.rbegin() < cpu["os_index"].get<int>());
        cpus.insert(cpu["os_index"].get<int>());
    }
    return cpus;
}

TEST(HostTopology, HasTheCpusThatThisProcessMayUse) {
    cpu_set_t before;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
    std::set<int> allowed;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<std::size_t>(cpu), &before)) {
            allowed.insert(cpu);
        }
    }
    EXPECT_EQ(cpusOf(hostTopology()), allowed);

    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(*allowed.rbegin()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    const auto restricted = cpusOf(hostTopology());
    ::sched_setaffinity(0, sizeof(before), &before);
    EXPECT_EQ(restricted, std::set<int>{*allowed.rbegin()});
}

}  // namespace
}  // namespace kv::load
