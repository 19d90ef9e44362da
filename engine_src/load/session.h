#pragma once

// From an address to a connection that may carry data: HELLO, authentication, bucket, vBucket map.

#include <chrono>
#include <cstdint>
#include <string>

#include "load/client.h"

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

/// The number of vBuckets in the server's cluster map. Throws LoadError if it gives none.
std::uint32_t askVbuckets(Client& client);

}  // namespace kv::load
