#include "server/replication/replication_source.h"

#include <stdexcept>
#include <utility>

#include "types/parse_number.h"

namespace kv::server {

ReplicationSource parseSource(const std::string& address) {
    const size_t colon = address.rfind(':');
    const auto port =
            colon == std::string::npos || colon == 0
                    ? std::nullopt
                    : parseNumber<uint16_t>(std::string_view(address).substr(colon + 1), 1);
    if (!port) {
        throw std::invalid_argument("'" + address + "' is not HOST:PORT");
    }
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    ReplicationSource source;
    source.host = std::move(host);
    source.port = *port;
    return source;
}

}  // namespace kv::server
