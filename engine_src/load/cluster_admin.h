#pragma once

// What makes a server a node of a cluster, and what proves that its copies are those of the others.
// All failures are LoadError.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "load/session.h"

namespace kv::load {

/// A cluster config as SET_CLUSTER_CONFIG takes it, of the node that is its `thisNode`.
class NodeConfig {
  public:
    explicit NodeConfig(std::string json);

    /// Every vBucket active, replica or dead, as the map says of this node.
    void setStates(Client& client) const;
    /// Clients are served by this map from now on, and the node follows the others by it.
    void publish(Client& client) const;

  private:
    std::string json_;
    std::vector<std::uint8_t> states_;  // by vBucket
};

/// These vBuckets become "active", "replica", "pending" or "dead"; all others stay as they are.
void setStates(Client& client, std::span<const std::uint16_t> vbuckets, std::string_view state);

/// What every vBucket of the server holds, read by DCP: {"0": {"state", "high_seqno", "documents",
/// "tombstones", "digest", "sample"}, ...}, dead ones left out. The digest covers key, value, CAS,
/// seqno, revision, flags, expiry and whether it is deleted, of every document; the order does not
/// matter. The sample is one document, null where there is none: {"key" in hexadecimal, "cas",
/// "value_crc32"}. Equal copies have equal digests and samples. Takes the connection, which must
/// have selected the bucket.
nlohmann::ordered_json digestVbuckets(Client client, const SessionOptions& options);

}  // namespace kv::load
