#include "load/protocols/session.h"

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "auth/scram_client.h"
#include "load/core/load_error.h"
#include "types/json_depth.h"

namespace kv::load {

using protocol::asBytes;
using protocol::Feature;
using protocol::FrameSpec;
using protocol::Opcode;
using protocol::Status;

namespace {

Answer ask(Client& client, Opcode opcode, std::string_view key, std::string_view value) {
    FrameSpec spec;
    spec.opcode = opcode;
    spec.key = asBytes(key);
    spec.value = asBytes(value);
    return client.ask(spec);
}

[[noreturn]] void refuse(const Client& client, const std::string& step, const Answer& answer) {
    throw LoadError(client.peer() + ": " + step + ": " +
                    std::string(protocol::toString(answer.status)) +
                    (answer.value.empty() ? "" : " (" + answer.value.substr(0, 200) + ")"));
}

/// Returns the features that the server acknowledged.
std::vector<Feature> hello(Client& client, bool json) {
    std::vector<Feature> wanted{Feature::kTcpNoDelay, Feature::kSelectBucket};
    if (json) {
        wanted.push_back(Feature::kJson);
    }
    std::string list(2 * wanted.size(), '\0');
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        storeBig(list.data() + 2 * i, raw(wanted[i]));
    }
    const auto answer = ask(client, Opcode::kHello, R"({"a":"perfrunner-load/1"})", list);
    if (answer.status != Status::kSuccess || answer.value.size() % 2 != 0) {
        refuse(client, "HELLO", answer);
    }
    std::vector<Feature> acknowledged;
    for (std::size_t i = 0; i < answer.value.size(); i += 2) {
        acknowledged.push_back(
                static_cast<Feature>(loadBig<std::uint16_t>(answer.value.data() + i)));
    }
    return acknowledged;
}

void logIn(Client& client, const SessionOptions& options) {
    const auto list = ask(client, Opcode::kSaslListMechs, {}, {});
    if (list.status != Status::kSuccess) {
        refuse(client, "SASL list", list);
    }
    if (list.value.empty()) {
        return;  // the server wants no authentication
    }
    const auto mechanism = auth::bestMechanism(list.value);
    if (mechanism.empty()) {
        throw LoadError(
                client.peer() +
                ": authentication: no mechanism in common with the server's: " + list.value);
    }
    auth::ScramClient scram(mechanism, options.user, options.password);
    const auto first = ask(client, Opcode::kSaslAuth, mechanism, scram.firstMessage());
    if (first.status != Status::kAuthContinue) {
        refuse(client, "authentication of user " + options.user, first);
    }
    const auto final = ask(client, Opcode::kSaslStep, mechanism, scram.finalMessage(first.value));
    if (final.status != Status::kSuccess) {
        refuse(client, "authentication of user " + options.user, final);
    }
    scram.verify(final.value);
}

void authenticate(Client& client, const SessionOptions& options) {
    try {
        logIn(client, options);
    } catch (const auth::AuthError& error) {
        throw LoadError(client.peer() + ": " + error.what());
    }
}

void begin(Session& session, const SessionOptions& options) {
    if (options.plain) {
        if (!options.user.empty()) {
            authenticate(session.client, options);
        }
        return;
    }
    for (const auto feature : hello(session.client, options.json)) {
        session.jsonAcknowledged = session.jsonAcknowledged || feature == Feature::kJson;
    }
    if (!options.user.empty()) {
        authenticate(session.client, options);
    }
    const auto selected = ask(session.client, Opcode::kSelectBucket, options.bucket, {});
    if (selected.status != Status::kSuccess) {
        refuse(session.client, "select bucket '" + options.bucket + "'", selected);
    }
}

}  // namespace

std::string addressOf(const SessionOptions& options) {
    return options.unixPath.empty() ? options.host + ":" + std::to_string(options.port)
                                    : options.unixPath;
}

Socket dial(const SessionOptions& options) {
    if (!options.unixPath.empty()) {
        return connectUnix(options.unixPath);
    }
    Socket socket = connectTcp(options.host, options.port, options.timeout);
    if (options.tls) {
        about(peerOf(socket), [&] { socket.secure(*options.tls, options.host, options.timeout); });
    }
    return socket;
}

Session openSession(const SessionOptions& options) {
    Session session{Client(dial(options), options.timeout)};
    begin(session, options);
    return session;
}

// Sorted: a member is looked up in log time. Other files of the library use ordered_json.
using MapJson = nlohmann::json;

namespace {

ClusterMap::Server readServer(const std::string& address, const std::string& dialled) {
    const auto colon = address.rfind(':');
    const auto port = colon == std::string::npos || colon == 0
                              ? std::nullopt
                              : parsePort(std::string_view(address).substr(colon + 1));
    if (!port) {
        throw LoadError("the cluster map's server '" + address + "' is not HOST:PORT");
    }
    const auto host = address.substr(0, colon);
    return {host == "$HOST" ? dialled : std::string(withoutBrackets(host)), *port};
}

/// Returns the TLS port of each node; 0 if it has none.
std::vector<std::uint16_t> tlsPorts(const MapJson& config) {
    std::vector<std::uint16_t> ports;
    for (const auto& node : config.value("nodesExt", MapJson::array())) {
        ports.push_back(node.value("services", MapJson::object()).value("kvSSL", std::uint16_t{0}));
    }
    return ports;
}

ClusterMap readMap(const MapJson& config, const ClusterMap::Server& asked, bool tls) {
    const auto map = config.is_object() ? config.value("vBucketServerMap", MapJson()) : MapJson();
    const auto rows = map.is_object() ? map.value("vBucketMap", MapJson()) : MapJson();
    if (!rows.is_array() || rows.empty() || rows.size() > 65536) {
        throw LoadError("the server's cluster map has no vBuckets (give --vbuckets)");
    }
    ClusterMap found;
    for (const auto& address : map.value("serverList", std::vector<std::string>())) {
        found.servers.push_back(readServer(address, asked.host));
    }
    if (found.servers.size() < 2) {  // its address is the one that was dialled
        found.servers = {asked};
    } else if (tls) {
        auto ports = tlsPorts(config);
        ports.resize(found.servers.size());
        for (std::size_t i = 0; i < ports.size(); ++i) {
            if (ports[i] == 0) {
                throw LoadError("the cluster map has no port for TLS (kvSSL) of " +
                                found.servers[i].host);
            }
            found.servers[i].port = ports[i];
        }
    }
    found.version = {config.value("revEpoch", std::int64_t{0}),
                     config.value("rev", std::int64_t{0})};
    for (const auto& row : rows) {
        const auto server = row.is_array() && !row.empty() && row[0].is_number_integer()
                                    ? row[0].get<std::int64_t>()
                                    : -1;
        if (server < 0 || server >= static_cast<std::int64_t>(found.servers.size())) {
            throw LoadError("the server's cluster map has vBuckets that are active nowhere");
        }
        found.active.push_back(static_cast<std::uint16_t>(server));
    }
    return found;
}

}  // namespace

ClusterMap parseMap(const std::string& text, const ClusterMap::Server& asked, bool tls) {
    if (!isShallowJson(text)) {
        throw LoadError("the server's cluster map is nested too deeply");
    }
    try {
        return readMap(MapJson::parse(text, nullptr, false), asked, tls);
    } catch (const MapJson::exception& error) {
        throw LoadError(std::string("the server's cluster map: ") + error.what());
    }
}

ClusterMap askMap(Client& client, const SessionOptions& options) {
    const auto answer = ask(client, Opcode::kGetClusterConfig, {}, {});
    if (answer.status != Status::kSuccess) {
        refuse(client, "cluster map", answer);
    }
    return parseMap(answer.value, {options.host, options.port}, options.tls.has_value());
}

std::uint32_t askVbuckets(Client& client) {
    return static_cast<std::uint32_t>(askMap(client, {}).active.size());
}

ClusterSessions openSessions(const SessionOptions& options, std::uint32_t vbuckets,
                             std::size_t count) {
    ClusterSessions found;
    auto first = openSession(options);
    found.map.servers = {{options.host, options.port}};
    if (!options.plain) {
        const auto answer = ask(first.client, Opcode::kGetClusterConfig, {}, {});
        if (answer.status == Status::kSuccess) {
            found.map =
                    parseMap(answer.value, {options.host, options.port}, options.tls.has_value());
        } else if (vbuckets == 0) {
            refuse(first.client, "cluster map (give --vbuckets)", answer);
        }
        const auto rows = static_cast<std::uint32_t>(found.map.active.size());
        found.vbuckets = vbuckets == 0 ? rows : vbuckets;
        if (!found.map.oneServer() && found.vbuckets != rows) {
            throw LoadError("the cluster has " + std::to_string(rows) + " vBuckets, not " +
                            std::to_string(vbuckets));
        }
    }
    if (found.map.oneServer()) {
        found.sessions.push_back(std::move(first));
    }
    for (std::size_t round = 0; round < count; ++round) {
        for (const auto& server : found.map.servers) {
            if (found.sessions.size() == count * found.map.servers.size()) {
                break;
            }
            auto there = options;
            there.host = server.host;
            there.port = server.port;
            found.sessions.push_back(openSession(there));
        }
    }
    return found;
}

}  // namespace kv::load
