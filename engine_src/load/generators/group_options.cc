#include "load/generators/group_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "types/parse_number.h"

namespace kv::load {

namespace {

constexpr const char* kVariantFields =
        "host=H,port=P|unix=PATH[,protocol=PROTOCOL][,user=U][,password-file=F][,pid=N]"
        "[,clock=HOST:PORT][,node=N[@HOST:PORT]]...";
constexpr std::string_view kNodeField = "node";

/// Parses one `name=value` of a variant; returns false if the name is unknown or the value is bad.
bool takeField(Variant& variant, std::string_view name, std::string_view value) {
    if (name == "host") {
        variant.session.host = withoutBrackets(value);
        return !value.empty();
    }
    if (name == "port") {
        const auto port = parsePort(value);
        variant.session.port = port.value_or(0);
        return port.has_value();
    }
    if (name == "unix") {
        variant.session.unixPath = value;
        return !value.empty();
    }
    if (name == "protocol") {
        const auto protocol = parseProtocol(value);
        variant.session.protocol = protocol.value_or(Protocol::kCouchbase);
        return protocol.has_value();
    }
    if (name == "password-file") {
        variant.passwordFile = value;
        return !value.empty();
    }
    if (name == "user") {
        variant.session.user = value;
        return !value.empty();
    }
    if (name == "pid") {
        variant.pid = parseNumber<int>(value, 1);
        return variant.pid.has_value();
    }
    if (name == "clock") {
        variant.clock = parseAddress(value);
        return variant.clock.has_value();
    }
    if (name == kNodeField) {
        const auto at = std::min(value.find('@'), value.size());
        const auto pid = parseNumber<int>(value.substr(0, at), 1);
        const auto clock = at < value.size() ? parseAddress(value.substr(at + 1)) : std::nullopt;
        variant.nodes.push_back({pid.value_or(0), clock});
        return pid && (clock || at == value.size());
    }
    return false;
}

Variant parseVariant(const std::string& text, const SessionOptions& session) {
    Variant variant{session};
    std::set<std::string_view> seen;
    for (std::string_view rest = text; !rest.empty();) {
        const auto field = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), field.size() + 1));
        const auto equals = std::min(field.find('='), field.size());
        const auto value = field.substr(std::min(equals + 1, field.size()));
        const auto name = field.substr(0, equals);
        const bool fresh = seen.insert(name).second || name == kNodeField;
        if (!fresh || !takeField(variant, name, value)) {
            throw CLI::ValidationError("--variant " + text + ": bad field '" + std::string(field) +
                                       "' (" + kVariantFields + ")");
        }
    }
    const bool tcp = seen.contains("host") && seen.contains("port");
    if (seen.contains("unix") ? seen.contains("host") || seen.contains("port") : !tcp) {
        throw CLI::ValidationError("--variant " + text + ": needs host= and port=, or unix=");
    }
    if (variant.clock && !variant.pid) {
        throw CLI::ValidationError("--variant " + text +
                                   ": clock= needs pid=, the process to ask for");
    }
    if (!variant.nodes.empty() && !variant.pid) {
        throw CLI::ValidationError("--variant " + text +
                                   ": node= needs pid=, that of the first node");
    }
    return variant;
}

}  // namespace

std::vector<ServerProcess> Variant::processes() const {
    std::vector<ServerProcess> all;
    if (pid) {
        all.push_back({*pid, clock});
        all.insert(all.end(), nodes.begin(), nodes.end());
    }
    return all;
}

void addGroupFlags(CLI::App& app, GroupFlags& flags) {
    app.add_option("--variant", flags.texts,
                   std::string("a server of a group, loaded alternately with the others: ") +
                           kVariantFields + "; repeated, in slot order")
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--round-seed", flags.roundSeed, "seed of the variants' order in each round")
            ->capture_default_str()
            ->check(notNegative());
    app.add_option("--idle", flags.idle,
                   "seconds before the first slice in which no variant is loaded: the servers' CPU "
                   "time in them does not come from the load")
            ->capture_default_str()
            ->check(notNegative());
}

namespace {

/// Returns whether the common password applies.
Secret secretOf(const Variant& variant) {
    return variant.passwordFile.empty() ? secretOf(variant.session) : Secret::kNone;
}

}  // namespace

void finishGroupFlags(const CLI::App& app, const char* sliceFlag, ConnectionFlags& connection,
                      GroupFlags& flags) {
    const auto refuse = [&](std::initializer_list<const char*> names, const char* why) {
        for (const char* name : names) {
            if (app.count(name) != 0) {
                throw CLI::ValidationError(std::string(name) + why);
            }
        }
    };
    finishProtocol(connection);
    if (flags.texts.empty()) {
        refuse({sliceFlag, "--round-seed", "--idle"},
               " is for groups: give the servers by --variant");
        finishConnectionFlags(connection, secretOf(connection.session));
        return;
    }
    refuse({"--host", "--port", "--unix"}, " and --variant exclude each other");
    auto secret = Secret::kNone;
    for (const auto& text : flags.texts) {
        const auto& variant = flags.variants.emplace_back(parseVariant(text, connection.session));
        if (variant.session.protocol != connection.session.protocol && !connection.anyProtocol) {
            throw CLI::ValidationError("--variant " + text +
                                       ": this tool speaks the memcached binary protocol only");
        }
        const auto processes = variant.processes();
        const bool proves =
                std::any_of(processes.begin(), processes.end(),
                            [](const ServerProcess& process) { return process.clock.has_value(); });
        secret = std::max(secret, proves ? Secret::kNeeded : secretOf(variant));
    }
    finishConnectionFlags(connection, secret);
    for (auto& variant : flags.variants) {
        variant.clockPassword = connection.session.password;
        if (!variant.passwordFile.empty()) {
            variant.session.password = readPassword(variant.passwordFile, "password-file");
        } else if (secret != Secret::kNeeded || !variant.session.user.empty()) {
            variant.session.password = connection.session.password;
        }  // otherwise the password is for other servers, and this one may want none
        variant.session.timeout = connection.session.timeout;
        variant.session.tls = connection.session.tls;
    }
}

}  // namespace kv::load
