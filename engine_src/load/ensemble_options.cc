#include "load/ensemble_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <set>

namespace kv::load {

namespace {

constexpr const char* kArmFields =
        "host=H,port=P[,user=U][,pid=N][,clock=HOST:PORT][,node=N[@HOST:PORT]]...";
constexpr std::string_view kNodeField = "node";

template <class Number>
std::optional<Number> parseNumber(std::string_view text, Number min, Number max) {
    Number number{};
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || number < min ||
        number > max) {
        return std::nullopt;
    }
    return number;
}

std::optional<std::uint16_t> parsePort(std::string_view text) {
    return parseNumber<std::uint16_t>(text, 1, 65535);
}

/// [::1] -> ::1
std::string_view withoutBrackets(std::string_view host) {
    return host.size() > 2 && host.front() == '[' && host.back() == ']'
                   ? host.substr(1, host.size() - 2)
                   : host;
}

/// One `name=value` of an arm; false if the name is unknown or the value is bad.
bool takeField(Arm& arm, std::string_view name, std::string_view value) {
    if (name == "host") {
        arm.session.host = withoutBrackets(value);
        return !value.empty();
    }
    if (name == "port") {
        const auto port = parsePort(value);
        arm.session.port = port.value_or(0);
        return port.has_value();
    }
    if (name == "user") {
        arm.session.user = value;
        return !value.empty();
    }
    if (name == "pid") {
        arm.pid = parseNumber<int>(value, 1, std::numeric_limits<int>::max());
        return arm.pid.has_value();
    }
    if (name == "clock") {
        arm.clock = parseAddress(value);
        return arm.clock.has_value();
    }
    if (name == kNodeField) {
        const auto at = std::min(value.find('@'), value.size());
        const auto pid = parseNumber<int>(value.substr(0, at), 1, std::numeric_limits<int>::max());
        const auto clock = at < value.size() ? parseAddress(value.substr(at + 1)) : std::nullopt;
        arm.nodes.push_back({pid.value_or(0), clock});
        return pid && (clock || at == value.size());
    }
    return false;
}

Arm parseArm(const std::string& text, const SessionOptions& session) {
    Arm arm{session};
    std::set<std::string_view> seen;
    for (std::string_view rest = text; !rest.empty();) {
        const auto field = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), field.size() + 1));
        const auto equals = std::min(field.find('='), field.size());
        const auto value = field.substr(std::min(equals + 1, field.size()));
        const auto name = field.substr(0, equals);
        const bool fresh = seen.insert(name).second || name == kNodeField;
        if (!fresh || !takeField(arm, name, value)) {
            throw CLI::ValidationError("--arm " + text + ": bad field '" + std::string(field) +
                                       "' (" + kArmFields + ")");
        }
    }
    if (!seen.contains("host") || !seen.contains("port")) {
        throw CLI::ValidationError("--arm " + text + ": needs host= and port=");
    }
    if (arm.clock && !arm.pid) {
        throw CLI::ValidationError("--arm " + text + ": clock= needs pid=, the process to ask for");
    }
    if (!arm.nodes.empty() && !arm.pid) {
        throw CLI::ValidationError("--arm " + text + ": node= needs pid=, that of the first node");
    }
    return arm;
}

}  // namespace

std::vector<ServerProcess> Arm::processes() const {
    std::vector<ServerProcess> all;
    if (pid) {
        all.push_back({*pid, clock});
        all.insert(all.end(), nodes.begin(), nodes.end());
    }
    return all;
}

std::optional<Address> parseAddress(std::string_view text) {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
        return std::nullopt;
    }
    const auto port = parsePort(text.substr(colon + 1));
    const auto given = text.substr(0, colon);
    const auto host = withoutBrackets(given);
    // Without brackets a colon is a piece of an IPv6 address, not the port's.
    if (!port || (host == given && given.find_first_of("[]:") != std::string_view::npos)) {
        return std::nullopt;
    }
    return Address{std::string(host), *port};
}

Address parseListen(std::string_view text) {
    const auto whole = parseAddress(text);
    return whole ? *whole : Address{std::string(withoutBrackets(text)), 0};
}

void addEnsembleFlags(CLI::App& app, EnsembleFlags& flags) {
    app.add_option("--arm", flags.texts,
                   std::string("a server of an ensemble, loaded in turn with the others: ") +
                           kArmFields + "; repeated, in slot order")
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--round-seed", flags.roundSeed, "seed of the arms' order in each round")
            ->capture_default_str()
            ->check(notNegative());
}

void finishEnsembleFlags(const CLI::App& app, const char* sliceFlag, ConnectionFlags& connection,
                         EnsembleFlags& flags) {
    const auto refuse = [&](std::initializer_list<const char*> names, const char* why) {
        for (const char* name : names) {
            if (app.count(name) != 0) {
                throw CLI::ValidationError(std::string(name) + why);
            }
        }
    };
    if (flags.texts.empty()) {
        refuse({sliceFlag, "--round-seed"}, " is for ensembles: give the servers by --arm");
        finishConnectionFlags(connection, !connection.session.user.empty());
        return;
    }
    refuse({"--host", "--port"}, " and --arm exclude each other");
    bool secret = false;
    for (const auto& text : flags.texts) {
        const auto& arm = flags.arms.emplace_back(parseArm(text, connection.session));
        const auto processes = arm.processes();
        secret = secret || !arm.session.user.empty() ||
                 std::any_of(processes.begin(), processes.end(),
                             [](const ServerProcess& one) { return one.clock.has_value(); });
        if (arm.session.plain && !arm.session.user.empty()) {
            throw CLI::ValidationError(
                    "--plain sends no session commands, so it cannot authenticate");
        }
    }
    finishConnectionFlags(connection, secret);
    for (auto& arm : flags.arms) {
        arm.session.password = connection.session.password;
        arm.session.timeout = connection.session.timeout;
    }
}

}  // namespace kv::load
