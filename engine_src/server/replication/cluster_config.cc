#include "server/replication/cluster_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "types/json_depth.h"

namespace kv::server {

namespace {

using Json = nlohmann::ordered_json;
using ParsedJson = nlohmann::json;  // sorted: the ordered one looks keys up one by one

/// get() would cut numbers that are too large, and fractions, so that they name something else.
int64_t integerOf(const ParsedJson& number, int64_t least, int64_t most) {
    const bool fits = number.is_number_unsigned()
                              ? number.get<uint64_t>() <= static_cast<uint64_t>(most)
                              : number.is_number_integer() && number.get<int64_t>() <= most;
    if (!fits || number.get<int64_t>() < least) {
        throw ClusterConfigError(
                fmt::format("{}: expected a number from {} to {}", number.dump(), least, most));
    }
    return number.get<int64_t>();
}

std::vector<std::vector<int>> readMap(const ParsedJson& map, uint16_t vbuckets, size_t servers) {
    if (!map.is_array() || map.size() != vbuckets) {
        throw ClusterConfigError("vBucketMap does not have " + std::to_string(vbuckets) + " rows");
    }
    std::vector<std::vector<int>> rows;
    for (const auto& row : map) {
        if (!row.is_array() || row.empty()) {
            throw ClusterConfigError("vBucketMap has a row without servers");
        }
        auto& numbers = rows.emplace_back();
        for (const auto& number : row) {
            // -1: none.
            numbers.push_back(
                    static_cast<int>(integerOf(number, -1, static_cast<int64_t>(servers) - 1)));
        }
    }
    return rows;
}

size_t readSelf(const ParsedJson& nodes, size_t servers) {
    if (!nodes.is_array() || nodes.size() != servers) {
        throw ClusterConfigError("nodesExt and serverList differ in length");
    }
    std::vector<size_t> mine;
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].value("thisNode", false)) {
            mine.push_back(i);
        }
    }
    if (mine.size() != 1) {
        throw ClusterConfigError("nodesExt must have exactly one node with thisNode");
    }
    return mine.front();
}

std::vector<uint16_t> readTlsPorts(const ParsedJson& nodes) {
    std::vector<uint16_t> ports;
    for (const auto& node : nodes) {
        const auto services = node.value("services", ParsedJson::object());
        ports.push_back(
                static_cast<uint16_t>(integerOf(services.value("kvSSL", ParsedJson(0)), 0, 65535)));
    }
    return ports;
}

}  // namespace

ClusterConfig::ClusterConfig(std::string_view bucket, uint16_t vbuckets, uint16_t port,
                             std::string_view uuid, uint16_t tlsPort)
    : servers_{"$HOST:" + std::to_string(port)},
      tlsPorts_{tlsPort},
      map_(vbuckets, std::vector<int>{0}) {
    Json config;
    config["rev"] = version_.revision;
    config["revEpoch"] = version_.epoch;
    config["name"] = bucket;
    config["uuid"] = uuid;
    config["nodeLocator"] = "vbucket";
    config["nodes"] = Json::array({{{"hostname", servers_[0]}, {"ports", {{"direct", port}}}}});
    // Two SDKs require a management port. They accept that the data port closes a connection on
    // which HTTP arrives.
    Json services{{"kv", port}, {"mgmt", port}};
    if (tlsPort != 0) {
        services["kvSSL"] = tlsPort;
    }
    config["nodesExt"] = Json::array(
            {{{"services", std::move(services)}, {"thisNode", true}, {"hostname", "$HOST"}}});
    // Neither "collections" here nor the feature in HELLO: clients need both or neither.
    config["bucketCapabilities"] = Json::array({"cbhello", "durableWrite", "nodesExt"});
    config["bucketCapabilitiesVer"] = "";
    config["vBucketServerMap"] = {{"hashAlgorithm", "CRC"},
                                  {"numReplicas", 0},
                                  {"serverList", servers_},
                                  {"vBucketMap", map_}};
    json_ = config.dump();
}

ClusterConfig ClusterConfig::parse(std::string json, uint16_t vbuckets) {
    if (!isShallowJson(json)) {
        throw ClusterConfigError("lists and objects are nested too deeply");
    }
    ClusterConfig config;
    try {
        const auto document = ParsedJson::parse(json);
        const auto& map = document.at("vBucketServerMap");
        config.version_ = {
                integerOf(document.value("revEpoch", ParsedJson(1)), INT64_MIN, INT64_MAX),
                integerOf(document.at("rev"), INT64_MIN, INT64_MAX)};
        config.servers_ = map.at("serverList").get<std::vector<std::string>>();
        config.self_ = readSelf(document.at("nodesExt"), config.servers_.size());
        config.tlsPorts_ = readTlsPorts(document.at("nodesExt"));
        config.map_ = readMap(map.at("vBucketMap"), vbuckets, config.servers_.size());
        config.replicas_ = std::any_of(config.map_.begin(), config.map_.end(),
                                       [](const auto& row) { return row.size() > 1; });
    } catch (const nlohmann::json::exception& error) {
        throw ClusterConfigError(error.what());
    }
    config.json_ = std::move(json);
    return config;
}

std::vector<bool> ClusterConfig::replicatedFrom(size_t server) const {
    std::vector<bool> found(map_.size());
    for (size_t vb = 0; vb < map_.size(); ++vb) {
        const auto& row = map_[vb];
        found[vb] = row.front() == static_cast<int>(server) && server != self_ &&
                    std::find(row.begin() + 1, row.end(), static_cast<int>(self_)) != row.end();
    }
    return found;
}

}  // namespace kv::server
