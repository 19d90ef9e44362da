// The node that another node follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "auth/tls.h"

namespace kv::server {

struct ReplicationSource {
    std::string host;
    uint16_t port{0};
    std::string user;  ///< empty: no login
    std::string password;
    std::optional<auth::TlsContext> tls{};  ///< empty: no TLS
};

/// Parses HOST:PORT, with brackets around an IPv6 address. Throws std::invalid_argument.
ReplicationSource parseSource(const std::string& address);

}  // namespace kv::server
