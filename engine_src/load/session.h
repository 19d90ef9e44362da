#pragma once

// From an address to a connection that may carry data: HELLO, authentication, bucket, vBucket map.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "load/client.h"
#include "protocol/extras.h"

namespace kv::load {

struct SessionOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 11210;
    std::string user;  // empty: do not authenticate
    std::string password;
    std::string bucket = "default";
    /// Plain memcached: send no session commands at all (it mis-parses HELLO and friends).
    bool plain = false;
    /// Ask for the JSON datatype, so that documents may be marked as JSON.
    bool json = false;
    std::chrono::milliseconds timeout{10'000};
};

struct Session {
    Client client;
    bool jsonAcknowledged = false;
};

/// Connects and sets the session up. Authenticates with the best mechanism the server lists; an
/// empty list means that it wants none. Throws LoadError, saying which step failed.
Session openSession(const SessionOptions& options);

/// Which server has each vBucket's active copy.
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

/// The map in the answer of the server `asked`, whose host "$HOST" stands for. Throws LoadError if
/// it is none, or one with a vBucket that is active nowhere.
ClusterMap parseMap(const std::string& text, const ClusterMap::Server& asked);

/// The cluster map of the server that `client` is connected to; "$HOST" becomes the host dialled.
/// Throws LoadError if it gives none, or one with a vBucket that is active nowhere.
ClusterMap askMap(Client& client, const SessionOptions& options);
/// The number of vBuckets in the server's cluster map. Throws LoadError if it gives none.
std::uint32_t askVbuckets(Client& client);

/// One connection to each server of a cluster, `count` times.
struct ClusterSessions {
    std::vector<Session> sessions;  // count × servers, the servers of the first round first
    ClusterMap map;                 // of one server where none was asked for
    std::uint32_t vbuckets = 0;     // 0: plain memcached
};
/// Opens them by the map of the server that the options name. `vbuckets`: expected; 0: as many as
/// the map has. A server that has no map, or speaks plain memcached, is a cluster by itself.
ClusterSessions openSessions(const SessionOptions& options, std::uint32_t vbuckets,
                             std::size_t count);

}  // namespace kv::load
