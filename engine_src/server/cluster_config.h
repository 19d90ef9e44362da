// ClusterConfig: the one-node map that clients ask for: which vBuckets there are and that all of
// them are here.
//
// Immutable once built, so any thread may read it. The text is the smallest that libcouchbase, the
// C++ SDK (Python, Node), gocb and the Java SDK accept; "$HOST" is replaced by the client with the
// address it dialled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/extras.h"

namespace kv::server {

class ClusterConfig {
  public:
    /// `uuid` tells two runs of a server apart; hexadecimal.
    ClusterConfig(std::string_view bucket, uint16_t vbuckets, uint16_t port, std::string_view uuid);

    [[nodiscard]] const std::string& json() const { return json_; }
    [[nodiscard]] const std::string& uuid() const { return uuid_; }
    /// The map never changes while the server runs.
    [[nodiscard]] static constexpr protocol::ConfigVersion version() { return {1, 1}; }

  private:
    std::string uuid_;
    std::string json_;
};

}  // namespace kv::server
