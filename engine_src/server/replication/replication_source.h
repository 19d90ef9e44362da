// The node that another node follows, and how frames reach it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "auth/tls.h"
#include "protocol/frame.h"

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

/// Sends a frame to the source: its bytes are copied before the call returns.
using FrameSink = std::function<void(const protocol::FrameSpec&)>;

}  // namespace kv::server
