#include "server/replication/cluster_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/commands/error_map.h"

namespace kv::server {
namespace {

TEST(ClusterConfig, HasTheFieldsThatEachClientRequires) {
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
    // Named collections need this capability and a HELLO feature; the engine offers neither.
    for (const auto& capability : json["bucketCapabilities"]) {
        EXPECT_NE(capability, "collections");
    }
}

std::string published(int revision, const nlohmann::json& rows, int self = 1) {
    nlohmann::json nodes = {nlohmann::json::object(), nlohmann::json::object()};
    nodes[static_cast<size_t>(self)]["thisNode"] = true;
    return nlohmann::json{
            {"rev", revision},
            {"nodesExt", nodes},
            {"vBucketServerMap", {{"serverList", {"a:1", "b:2"}}, {"vBucketMap", rows}}}}
            .dump();
}

TEST(ClusterConfig, APublishedConfigIsServedUnchanged) {
    const auto text = published(7, {{0, 1}, {1, 0}, {0, -1}});
    const auto config = ClusterConfig::parse(text, 3);
    EXPECT_EQ(config.json(), text);
    EXPECT_EQ(config.version(), (protocol::ConfigVersion{1, 7}));
    EXPECT_EQ(config.self(), 1U);
    EXPECT_EQ(config.servers(), (std::vector<std::string>{"a:1", "b:2"}));
    EXPECT_EQ(config.replicatedFrom(0), (std::vector<bool>{true, false, false}));
    EXPECT_EQ(config.replicatedFrom(1), (std::vector<bool>{false, false, false})) << "from itself";
}

TEST(ClusterConfig, HasReplicasIfTheMapHasRoomForThem) {
    EXPECT_FALSE(ClusterConfig("default", 2, 11210, "abc").hasReplicas());
    EXPECT_FALSE(ClusterConfig::parse(published(1, {{0}, {1}}), 2).hasReplicas());
    EXPECT_TRUE(ClusterConfig::parse(published(1, {{0}, {1, 0}}), 2).hasReplicas());
    EXPECT_TRUE(ClusterConfig::parse(published(1, {{0, -1}, {1, -1}}), 2).hasReplicas());
}

TEST(ClusterConfig, InvalidConfigsAreRefused) {
    const auto refuse = [](const std::string& text) {
        EXPECT_THROW(ClusterConfig::parse(text, 2), ClusterConfigError) << text;
    };
    refuse("no JSON");
    refuse("{}");
    refuse("[]");
    refuse(published(2, {{0, 1}}));          // one row instead of two
    refuse(published(2, {{0, 1}, {2, 0}}));  // no such server
    refuse(published(2, {{0, 1}, {"x"}}));   // not a number
    refuse(published(2, {{0, 1}, nlohmann::json::array()}));
    refuse(published(2, {{0, 1}, {int64_t{1} << 32, 0}}));  // not server 0
    refuse(published(2, {{0, 1}, {0.5, 0}}));
    for (const nlohmann::json& revision : {nlohmann::json(2.5), nlohmann::json(UINT64_MAX)}) {
        auto odd = nlohmann::json::parse(published(2, {{0, 1}, {1, 0}}));
        odd["rev"] = revision;
        refuse(odd.dump());
    }
    auto farPort = nlohmann::json::parse(published(2, {{0, 1}, {1, 0}}));
    farPort["nodesExt"][0]["services"]["kvSSL"] = 65536 + 11207;
    refuse(farPort.dump());
    auto withoutSelf = nlohmann::json::parse(published(2, {{0, 1}, {1, 0}}));
    withoutSelf["nodesExt"][1].erase("thisNode");
    refuse(withoutSelf.dump());
    withoutSelf["nodesExt"].erase(1);
    refuse(withoutSelf.dump());
}

TEST(ClusterConfig, ADeeplyNestedConfigIsRefusedAndDoesNotExhaustTheStack) {
    constexpr size_t kDepth = 500'000;
    const auto deep = std::string(kDepth, '[') + std::string(kDepth, ']');
    for (const auto* before :
         {R"({"vBucketServerMap":0,"rev":)", R"({"vBucketServerMap":0,"rev":1,"revEpoch":)"}) {
        EXPECT_THROW(ClusterConfig::parse(before + deep + "}", 2), ClusterConfigError) << before;
    }
    auto services = nlohmann::json::parse(published(2, {{0, 1}, {1, 0}}));
    services["nodesExt"][0]["services"] = "DEEP";
    auto text = services.dump();
    text.replace(text.find(R"("DEEP")"), 6, deep);
    EXPECT_THROW(ClusterConfig::parse(text, 2), ClusterConfigError);
}

TEST(ClusterConfig, OnlyANewerConfigReplacesTheCurrentOne) {
    PublishedConfig config(ClusterConfig("default", 2, 11210, "abc"), "abc");
    const auto make = [](int revision) {
        return std::make_shared<const ClusterConfig>(
                ClusterConfig::parse(published(revision, {{0, 1}, {1, 0}}), 2));
    };
    EXPECT_FALSE(config.publish(make(1))) << "as new as the first";
    EXPECT_TRUE(config.publish(make(3)));
    EXPECT_FALSE(config.publish(make(2)));
    EXPECT_EQ(config.current()->version().revision, 3);
}

TEST(ErrorMap, ServesTheHighestRequestedVersion) {
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(1))["version"], 1);
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(2))["version"], 2);
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(9))["version"], 2);
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(2))["errors"]["86"]["name"], "ETMPFAIL");
    EXPECT_EQ(nlohmann::json::parse(errorMapJson(1))["errors"]["a1"]["name"],
              "DURABILITY_IMPOSSIBLE");
}

}  // namespace
}  // namespace kv::server
