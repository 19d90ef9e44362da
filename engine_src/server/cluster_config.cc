#include "server/cluster_config.h"

#include <nlohmann/json.hpp>

namespace kv::server {

ClusterConfig::ClusterConfig(std::string_view bucket, uint16_t vbuckets, uint16_t port,
                             std::string_view uuid)
    : uuid_(uuid) {
    using Json = nlohmann::ordered_json;
    const std::string address = "$HOST:" + std::to_string(port);
    Json config;
    config["rev"] = version().revision;
    config["revEpoch"] = version().epoch;
    config["name"] = bucket;
    config["uuid"] = uuid;
    config["nodeLocator"] = "vbucket";
    config["nodes"] = Json::array({{{"hostname", address}, {"ports", {{"direct", port}}}}});
    // A management port is demanded by two SDKs; HTTP on the data port is answered by closing,
    // which they accept.
    config["nodesExt"] = Json::array({{{"services", {{"kv", port}, {"mgmt", port}}},
                                       {"thisNode", true},
                                       {"hostname", "$HOST"}}});
    // No "collections" here and no such feature in HELLO: clients need both or neither.
    config["bucketCapabilities"] = Json::array({"cbhello", "durableWrite", "nodesExt"});
    config["bucketCapabilitiesVer"] = "";
    auto map = Json::array();
    for (uint16_t vbucket = 0; vbucket < vbuckets; ++vbucket) {
        map.push_back(Json::array({0}));
    }
    config["vBucketServerMap"] = {{"hashAlgorithm", "CRC"},
                                  {"numReplicas", 0},
                                  {"serverList", Json::array({address})},
                                  {"vBucketMap", std::move(map)}};
    json_ = config.dump();
}

}  // namespace kv::server
