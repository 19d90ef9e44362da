#include "server/replication_set.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "executor/thread_executor.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

/// Of two vBuckets, the first of which is active on `active` and a replica here.
std::shared_ptr<const ClusterConfig> configOf(int revision, int active) {
    const auto json = nlohmann::json{{"rev", revision},
                                     {"nodesExt", {{{"thisNode", true}}, nlohmann::json::object()}},
                                     {"vBucketServerMap",
                                      {{"serverList", {"127.0.0.1:1", "127.0.0.1:2"}},
                                       {"vBucketMap", {{active, 1 - active}, {0, 1}}}}}};
    return std::make_shared<const ClusterConfig>(ClusterConfig::parse(json.dump(), 2));
}

TEST(ReplicationSet, AMapThatWasOvertakenOnItsWayIsNotFollowed) {
    const auto bucket = testing_support::makeBucket(2);
    ThreadExecutor executor({.writers = 1, .auxIo = 1, .nonIo = 1});
    ReplicationSet set(*bucket, executor, {});
    const auto becomes = [&set](const std::string& sources) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (set.stats().at(0).second != sources) {
            if (std::chrono::steady_clock::now() > until) {
                return false;
            }
            std::this_thread::yield();
        }
        return true;
    };
    EXPECT_TRUE(set.follow(configOf(3, 1)));
    EXPECT_TRUE(becomes("1"));
    EXPECT_FALSE(set.follow(configOf(2, 0)));
    EXPECT_FALSE(set.follow(configOf(3, 0)));
    EXPECT_EQ(set.stats().at(0).second, "1");
    EXPECT_TRUE(set.follow(configOf(4, 0)));
    EXPECT_TRUE(becomes("0"));
}

}  // namespace
}  // namespace kv::server
