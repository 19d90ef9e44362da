// Whom a node follows.
#pragma once

#include <cstdint>
#include <string>

namespace kv::server {

struct ReplicationSource {
    std::string host;
    uint16_t port{0};
    std::string user;  ///< empty: without a login
    std::string password;
};

/// HOST:PORT, the host of an IPv6 address in brackets; throws std::invalid_argument.
ReplicationSource parseSource(const std::string& address);

}  // namespace kv::server
