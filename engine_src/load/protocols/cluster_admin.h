#pragma once

// Makes a server a node of a cluster, and verifies that its copies equal those of the others.
// Errors: LoadError.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "load/protocols/session.h"

namespace kv::load {

/// A cluster config for SET_CLUSTER_CONFIG, for the node that is its `thisNode`.
class NodeConfig {
  public:
    explicit NodeConfig(std::string json);

    /// Makes every vBucket active, replica or dead, according to the map's entry for this node.
    void setStates(Client& client) const;
    /// Publishes the map: clients are served by it from now on, and the node follows the others by
    /// it.
    void publish(Client& client) const;

  private:
    std::string json_;
    std::vector<std::uint8_t> states_;  // by vBucket
};

/// Makes these vBuckets "active", "replica", "pending" or "dead"; all others stay as they are.
void setStates(Client& client, std::span<const std::uint16_t> vbuckets, std::string_view state);

/// Makes these replicas forget their copies and fetch them again from their source. LoadError,
/// without any change, if one of them is not a replica. If the server refuses to delete a copy,
/// LoadError, and that vBucket stays a replica with its copy.
void discardCopies(Client& client, std::span<const std::uint16_t> vbuckets);

/// Returns the content of every vBucket of the server, read by DCP: {"0": {"state", "high_seqno",
/// "documents", "tombstones", "digest", "sample"}, ...}, without dead ones. The digest covers key,
/// value, CAS, seqno, revision, flags, expiry and deletion state of every document; the order does
/// not matter. The sample is one document, or null if there is none: {"key" in hexadecimal, "cas",
/// "value_crc32"}. Equal copies have equal digests and samples. Takes the connection, which must
/// have selected the bucket.
nlohmann::ordered_json digestVbuckets(Client client, const SessionOptions& options);

}  // namespace kv::load
