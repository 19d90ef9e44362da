#include "server/replication/replication_source.h"

#include <charconv>
#include <stdexcept>
#include <utility>

namespace kv::server {

ReplicationSource parseSource(const std::string& address) {
    const size_t colon = address.rfind(':');
    unsigned port = 0;
    const char* const last = address.data() + address.size();
    if (colon == std::string::npos || colon == 0 ||
        std::from_chars(address.data() + colon + 1, last, port).ptr != last || port == 0 ||
        port > 65'535) {
        throw std::invalid_argument("'" + address + "' is not HOST:PORT");
    }
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    ReplicationSource source;
    source.host = std::move(host);
    source.port = static_cast<uint16_t>(port);
    return source;
}

}  // namespace kv::server
