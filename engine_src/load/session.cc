#include "load/session.h"

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "auth/scram_client.h"
#include "load/load_error.h"

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

[[noreturn]] void refuse(const std::string& step, const Answer& answer) {
    throw LoadError(step + ": " + std::string(protocol::toString(answer.status)) +
                    (answer.value.empty() ? "" : " (" + answer.value.substr(0, 200) + ")"));
}

/// The features the server acknowledged.
std::vector<Feature> hello(Client& client, bool json) {
    std::vector<Feature> wanted{Feature::kTcpNoDelay, Feature::kSelectBucket};
    if (json) {
        wanted.push_back(Feature::kJson);
    }
    std::string list(2 * wanted.size(), '\0');
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        protocol::storeBig(reinterpret_cast<std::uint8_t*>(list.data()) + 2 * i, raw(wanted[i]));
    }
    const auto answer = ask(client, Opcode::kHello, R"({"a":"perfrunner-load/1"})", list);
    if (answer.status != Status::kSuccess || answer.value.size() % 2 != 0) {
        refuse("HELLO", answer);
    }
    std::vector<Feature> acknowledged;
    for (std::size_t i = 0; i < answer.value.size(); i += 2) {
        acknowledged.push_back(static_cast<Feature>(protocol::loadBig<std::uint16_t>(
                reinterpret_cast<const std::uint8_t*>(answer.value.data()) + i)));
    }
    return acknowledged;
}

void logIn(Client& client, const SessionOptions& options) {
    const auto list = ask(client, Opcode::kSaslListMechs, {}, {});
    if (list.status != Status::kSuccess) {
        refuse("SASL list", list);
    }
    if (list.value.empty()) {
        return;  // the server wants no authentication
    }
    const auto mechanism = auth::bestMechanism(list.value);
    if (mechanism.empty()) {
        throw LoadError("authentication: no mechanism in common with the server's: " + list.value);
    }
    if (mechanism == "PLAIN") {
        const auto answer = ask(client, Opcode::kSaslAuth, mechanism,
                                auth::plainMessage(options.user, options.password));
        if (answer.status != Status::kSuccess) {
            refuse("authentication of user " + options.user, answer);
        }
        return;
    }
    auth::ScramClient scram(mechanism, options.user, options.password);
    const auto first = ask(client, Opcode::kSaslAuth, mechanism, scram.firstMessage());
    if (first.status != Status::kAuthContinue) {
        refuse("authentication of user " + options.user, first);
    }
    const auto final = ask(client, Opcode::kSaslStep, mechanism, scram.finalMessage(first.value));
    if (final.status != Status::kSuccess) {
        refuse("authentication of user " + options.user, final);
    }
    scram.verify(final.value);
}

void authenticate(Client& client, const SessionOptions& options) {
    try {
        logIn(client, options);
    } catch (const auth::AuthError& error) {
        throw LoadError(error.what());
    }
}

}  // namespace

Session openSession(const SessionOptions& options) {
    Session session{
            Client(connectTcp(options.host, options.port, options.timeout), options.timeout)};
    if (options.plain) {
        return session;
    }
    for (const auto feature : hello(session.client, options.json)) {
        session.jsonAcknowledged = session.jsonAcknowledged || feature == Feature::kJson;
    }
    if (!options.user.empty()) {
        authenticate(session.client, options);
    }
    const auto selected = ask(session.client, Opcode::kSelectBucket, options.bucket, {});
    if (selected.status != Status::kSuccess) {
        refuse("select bucket '" + options.bucket + "'", selected);
    }
    return session;
}

std::uint32_t askVbuckets(Client& client) {
    const auto answer = ask(client, Opcode::kGetClusterConfig, {}, {});
    if (answer.status != Status::kSuccess) {
        refuse("cluster map", answer);
    }
    const auto map = nlohmann::json::parse(answer.value, nullptr, false);
    const auto rows =
            map.is_object() && map.contains("vBucketServerMap") &&
                            map["vBucketServerMap"].is_object()
                    ? map["vBucketServerMap"].value("vBucketMap", nlohmann::json::array()).size()
                    : 0;
    if (rows == 0 || rows > 65536) {
        throw LoadError("the server's cluster map has no vBuckets (give --vbuckets)");
    }
    return static_cast<std::uint32_t>(rows);
}

}  // namespace kv::load
