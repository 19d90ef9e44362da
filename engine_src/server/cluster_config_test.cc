#include "server/cluster_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/error_map.h"

namespace kv::server {
namespace {

TEST(ClusterConfig, HasWhatEachClientDemands) {
    const ClusterConfig config("default", 64, 11210, "abc");
    const auto json = nlohmann::json::parse(config.json());
    EXPECT_EQ(json["name"], "default");  // libcouchbase
    EXPECT_EQ(json["nodeLocator"], "vbucket");
    EXPECT_EQ(json["rev"], 1);                                 // Java
    EXPECT_EQ(json["nodes"].size(), json["nodesExt"].size());  // gocb
    EXPECT_EQ(json["nodesExt"][0]["services"]["kv"], 11210);
    EXPECT_EQ(json["nodesExt"][0]["services"]["mgmt"], 11210);
    EXPECT_EQ(json["nodesExt"][0]["thisNode"], true);
    EXPECT_EQ(json["vBucketServerMap"]["numReplicas"], 0);
    ASSERT_EQ(json["vBucketServerMap"]["vBucketMap"].size(), 64U);
    for (const auto& row : json["vBucketServerMap"]["vBucketMap"]) {
        EXPECT_EQ(row, nlohmann::json::array({0}));
    }
    // Named collections need this and a HELLO feature together; there is neither.
    for (const auto& capability : json["bucketCapabilities"]) {
        EXPECT_NE(capability, "collections");
    }
}

TEST(ErrorMap, ServesTheHighestVersionAskedFor) {
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(1))["version"], 1);
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(2))["version"], 2);
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(9))["version"], 2);
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(2))["errors"]["86"]["name"], "ETMPFAIL");
}

}  // namespace
}  // namespace kv::server
