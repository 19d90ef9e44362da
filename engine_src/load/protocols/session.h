#pragma once

// Turns an address into a connection that may carry data: HELLO, authentication, bucket, vBucket
// map.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "auth/tls.h"
#include "load/protocols/client.h"
#include "load/protocols/protocol.h"
#include "protocol/extras.h"

namespace kv::load {

struct SessionOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 11210;
    std::string unixPath{};  // instead of host and port
    Protocol protocol = Protocol::kCouchbase;
    std::string user;  // empty: do not authenticate
    std::string password;
    std::string bucket = "default";
    /// Plain memcached: send no session commands except a login (memcached misparses HELLO and
    /// similar commands).
    bool plain = false;
    /// Request the JSON datatype, so that documents may be marked as JSON.
    bool json = false;
    /// Speak TLS; `port` and the ports of the cluster map's nodes are then those for TLS.
    std::optional<auth::TlsContext> tls;
    std::chrono::milliseconds timeout{10'000};
};

/// Returns HOST:PORT or the path of a Unix socket, for messages.
std::string addressOf(const SessionOptions& options);
/// Connects to the server. Throws LoadError.
Socket dial(const SessionOptions& options);

struct Session {
    Client client;
    bool jsonAcknowledged = false;
};

/// Connects and sets the session up. Authenticates with the best mechanism that the server lists;
/// an empty list means that it wants none. Throws LoadError that names the failed step.
Session openSession(const SessionOptions& options);

/// The server that has the active copy of each vBucket.
struct ClusterMap {
    struct Server {
        std::string host;
        std::uint16_t port = 0;
        bool operator==(const Server&) const = default;
    };
    std::vector<Server> servers;        // at least one
    std::vector<std::uint16_t> active;  // by vBucket: its server
    protocol::ConfigVersion version;

    bool oneServer() const noexcept { return servers.size() == 1; }
};

/// Parses the map in the answer of the server `asked`, whose host replaces "$HOST"; with `tls` the
/// nodes' ports are those for TLS. Throws LoadError if it is not a map, if a vBucket is active
/// nowhere, or if such a port is missing.
ClusterMap parseMap(const std::string& text, const ClusterMap::Server& asked, bool tls = false);

/// Asks the server of `client` for its cluster map; "$HOST" becomes the dialled host. Throws
/// LoadError if it has none, or if a vBucket is active nowhere.
ClusterMap askMap(Client& client, const SessionOptions& options);
/// Returns the number of vBuckets in the server's cluster map. Throws LoadError if it has none.
std::uint32_t askVbuckets(Client& client);

/// One connection to each server of a cluster, `count` times.
struct ClusterSessions {
    std::vector<Session> sessions;  // count × servers, the servers of the first round first
    ClusterMap map;                 // of one server if none was requested
    std::uint32_t vbuckets = 0;     // 0: plain memcached
};
/// Opens them by the map of the server in the options. `vbuckets`: the expected number; 0: that of
/// the map. A server that has no map, or speaks plain memcached, is a cluster of one.
ClusterSessions openSessions(const SessionOptions& options, std::uint32_t vbuckets,
                             std::size_t count);

}  // namespace kv::load
