#include "server/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "allocators/allocator.h"
#include "options/build_info.h"
#include "server/version.h"

namespace kv::server {

namespace {

constexpr int kUsage = 2;

std::string paramHelp() {
    std::string text = "Parameters of --param (default; range):\n";
    for (const auto& param : paramTable()) {
        text += "  " + param.name + "=" + param.get({}) + "  " + param.description + " (" +
                param.range + ")\n";
    }
    return text;
}

void parseAddress(const std::string& address, CommandLine& line) {
    try {
        line.replicateFrom = parseSource(address);
    } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError("--replicate-from", error.what());
    }
}

/// The parsed texts that become a CommandLine. Each flag has a separate place: a flag that is
/// given several times clears its list first.
struct FlagTexts {
    std::string bucketType{"persistent"};
    std::string fsync;
    std::vector<std::string> settings;
};

void addNodeFlags(CLI::App& app, CommandLine& line) {
    app.add_option("--host", line.host, "Address to listen on")->capture_default_str();
    app.add_option("--port", line.port, "Port to listen on, 0 = any free one")
            ->capture_default_str();
    app.add_option("--port-file", line.portFile, "Written with the port when ready to serve");
    app.add_option(
               "--data-dir", line.dataDir,
               "Directory of a persistent bucket, and of what any node remembers of its cluster")
            ->capture_default_str();
    app.add_flag("--accept-loss", line.acceptLoss,
                 "Start although documents of the last clean stop are missing or a store is "
                 "damaged: keep what can be read, log what is lost, begin a new history. For one "
                 "start, not for a service file");
    app.add_flag("--cluster", line.cluster,
                 "Leave vBuckets that were never stored here dead until a manager sets their "
                 "state; by default they become active");
}

void addBucketFlags(CLI::App& app, CommandLine& line, FlagTexts& texts) {
    app.add_option("--bucket-name", line.bucketName, "Name of the bucket")
            ->capture_default_str()
            ->check([](const std::string& name) {
                return name.empty() || name.size() > 100 ? "1 to 100 characters" : "";
            });
    app.add_option("--bucket-type", texts.bucketType, "persistent or ephemeral")
            ->capture_default_str()
            ->check(CLI::IsMember({"persistent", "ephemeral"}));
    app.add_option("--quota-mb", line.quotaMb, "Memory quota of the bucket, MiB")
            ->capture_default_str()
            ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24));
    app.add_option("--vbuckets", line.vbuckets, "Number of vBuckets")
            ->capture_default_str()
            ->check(CLI::Range(1, 1024));
    app.add_option("--threads", line.threads, "Front-end threads")
            ->capture_default_str()
            ->check(CLI::Range(1, 256));
    app.add_option("--shards", line.shards, "Flushers of a persistent bucket")
            ->capture_default_str()
            ->check(CLI::Range(1, 64));
    app.add_option(
               "--fsync", texts.fsync,
               "When what is persisted begins to survive the loss of power: commit, interval (see "
               "fsync_interval_ms) or never, the default: it survives the death of the process")
            ->check(CLI::IsMember({"commit", "interval", "never"}));
}

void addUserAndSourceFlags(CLI::App& app, CommandLine& line) {
    app.add_option(
            "--users", line.usersFile,
            R"(JSON file {"name":"password"} or {"name":{"password":"...","role":"read-only"}}, mode 0600; )"
            "without it only loopback is served");
    app.add_option_function<std::string>(
               "--replicate-from",
               [&line](const std::string& address) { parseAddress(address, line); },
               "HOST:PORT of a node to follow: vBuckets that were never stored here start as its "
               "replicas")
            ->type_name("HOST:PORT");
    app.add_option(
            "--replicate-login", line.replicateLogin,
            R"(JSON file {"name":"password"} of one user, mode 0600, to log in with at nodes that )"
            "this one follows");
    app.add_option(
            "--replicate-tls-ca", line.replicateTlsCa,
            "PEM file of the authorities that vouch for nodes that this one follows: it uses "
            "TLS with them, and shows them the certificate of --tls-cert, if given");
}

void addTlsFlags(CLI::App& app, CommandLine& line) {
    auto* cert =
            app.add_option("--tls-cert", line.tlsCert,
                           "PEM file with the server's certificate, and those that vouch for it");
    auto* key =
            app.add_option("--tls-key", line.tlsKey,
                           "PEM file with the certificate's key, mode 0600 (root's: up to 0640)");
    cert->needs(key);
    key->needs(cert);
    app.add_option("--tls-port", line.tlsPort, "Port for TLS, besides --port; 0 = any free one")
            ->needs(cert)
            ->needs(key);
    app.add_option(
            "--tls-client-ca", line.tlsClientCa,
            "PEM file of authorities: clients of --tls-port need a certificate of one of them");
}

}  // namespace

ParsedCommandLine parseCommandLine(int argc, const char* const* argv) {
    CLI::App app{"Key-value engine that speaks the memcached binary protocol", "kv_engine"};
    CommandLine line;
    FlagTexts texts;
    addNodeFlags(app, line);
    addBucketFlags(app, line, texts);
    addUserAndSourceFlags(app, line);
    addTlsFlags(app, line);
    app.add_option("--param", texts.settings, "name=value, repeatable; see below")
            ->allow_extra_args(false);
    app.add_option("--log-level", line.logLevel, "trace, debug, info, warn, err or off")
            ->capture_default_str()
            ->check(CLI::IsMember({"trace", "debug", "info", "warn", "err", "off"}));
    app.set_version_flag("--version", std::string(kVersion));
    app.footer(paramHelp());
    try {
        app.parse(argc, argv);
        for (const auto& setting : texts.settings) {
            applyParam(line.params, setting);
        }
        if (!texts.fsync.empty()) {
            applyParam(line.params, "fsync=" + texts.fsync);
        }
    } catch (const CLI::ParseError& error) {
        // CLI11 has its own exit codes; ours for a mistake is 2.
        return {std::nullopt, app.exit(error) == 0 ? 0 : kUsage};
    } catch (const ParamError& error) {
        std::cerr << "kv_engine: --param: " << error.what() << '\n';
        return {std::nullopt, kUsage};
    }
    line.bucketType =
            texts.bucketType == "ephemeral" ? BucketType::Ephemeral : BucketType::Persistent;
    line.params.bucket.name = line.bucketName;
    line.params.bucket.quotaBytes = line.quotaMb << 20U;
    line.params.bucket.vbuckets = line.vbuckets;
    return {std::move(line), 0};
}

KeyValues configStats(const CommandLine& line) {
    KeyValues values{{"host", line.host},
                     {"port", std::to_string(line.port)},
                     {"port_file", line.portFile.string()},
                     {"data_dir", line.dataDir.string()},
                     {"accept_loss", line.acceptLoss ? "true" : "false"},
                     {"cluster", line.cluster ? "true" : "false"},
                     {"bucket_name", line.bucketName},
                     {"bucket_type", std::string(toString(line.bucketType))},
                     {"quota_mb", std::to_string(line.quotaMb)},
                     {"vbuckets", std::to_string(line.vbuckets)},
                     {"threads", std::to_string(line.threads)},
                     {"shards", std::to_string(line.shards)},
                     {"users", line.usersFile.string()},
                     {"replicate_from", line.replicateFrom.host.empty()
                                                ? ""
                                                : line.replicateFrom.host + ":" +
                                                          std::to_string(line.replicateFrom.port)},
                     {"replicate_login", line.replicateLogin.string()},
                     {"replicate_tls_ca", line.replicateTlsCa.string()},
                     {"tls_port", line.tlsPort ? std::to_string(*line.tlsPort) : ""},
                     {"log_level", line.logLevel}};
    for (const auto& param : paramTable()) {
        values.emplace_back(param.name, param.get(line.params));
    }
    for (auto& [name, value] : options::buildInfo()) {
        values.emplace_back("build." + name, std::move(value));
    }
    values.emplace_back("build.allocator", allocator::name());
    return values;
}

}  // namespace kv::server
