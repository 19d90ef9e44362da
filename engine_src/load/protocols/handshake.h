#pragma once

// Turns an address into connections that may carry load, in any protocol. It logs in and sends the
// server a harmless request, so that a server that refuses the connection or speaks something else
// is found before the load begins.

#include <cstddef>
#include <vector>

#include "load/core/socket.h"
#include "load/protocols/session.h"

namespace kv::load {

struct OpenedServer {
    std::vector<Socket>
            sockets;  // count × servers of the map, the servers of the first round first
    ClusterMap map;   // of one server if none was requested
    std::uint32_t vbuckets = 0;  // 0: it has no vBuckets
    bool jsonAcknowledged = false;
};

/// Opens `count` connections to the server (of a cluster: to each). The protocol must not be kAuto.
/// `vbuckets` as in openSessions(). Throws LoadError that names the failed step.
OpenedServer openServer(const SessionOptions& options, std::uint32_t vbuckets, std::size_t count);

/// Asks the server for its protocol, on separate connections: the binary protocol of memcached
/// (with sessions, unless options.plain), else its text protocol, else RESP2. Throws LoadError if
/// the answer matches none of these.
Protocol detectProtocol(const SessionOptions& options);

}  // namespace kv::load
