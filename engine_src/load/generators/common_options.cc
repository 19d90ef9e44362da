#include "load/generators/common_options.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>

namespace kv::load {

void addConnectionFlags(CLI::App& app, ConnectionFlags& flags) {
    auto& session = flags.session;
    app.add_option("--host", session.host, "server name or address")->capture_default_str();
    app.add_option("--port", session.port, "server port")
            ->capture_default_str()
            ->check(CLI::Range(1, 65535));
    app.add_option("--unix", session.unixPath,
                   "path of the server's Unix socket, instead of host and port")
            ->excludes("--host")
            ->excludes("--port");
    if (flags.anyProtocol) {
        app.add_option("--protocol", flags.protocol,
                       "couchbase (the bundled engine; default), binary, text, meta (memcached), "
                       "resp2, "
                       "resp3 (Redis), auto (ask the server)")
                ->check([](const std::string& name) {
                    return parseProtocol(name) ? std::string()
                                               : "is not one of " + std::string(kProtocolNames);
                });
    }
    app.add_option("--user", session.user, "authenticate as this user");
    app.add_option("--password-file", flags.passwordFile, "file that holds the password");
    app.add_option("--password-env", flags.passwordEnv,
                   "environment variable that holds the password")
            ->excludes("--password-file");
    app.add_option("--bucket", session.bucket, "bucket to select")->capture_default_str();
    app.add_flag("--plain", session.plain,
                 "plain memcached: send no session commands, vBucket 0 (as --protocol binary)");
    auto* ca = app.add_option("--tls-ca", flags.tlsCa,
                              "use TLS; PEM file of the authorities that vouch for the server");
    auto* cert = app.add_option("--tls-cert", flags.tlsCert,
                                "PEM file of a certificate to show to the server");
    auto* key = app.add_option("--tls-key", flags.tlsKey,
                               "PEM file of the certificate's key, mode 0600 (root's: up to 0640)");
    cert->needs(ca)->needs(key);
    key->needs(cert);
    app.add_option("--op-timeout", flags.opTimeout, "seconds without an answer that are a failure")
            ->capture_default_str()
            ->check(CLI::Range(0.01, 3600.0));
}

void finishProtocol(ConnectionFlags& flags) {
    auto& session = flags.session;
    if (!flags.protocol.empty()) {
        session.protocol = *parseProtocol(flags.protocol);
    } else if (session.plain) {
        session.protocol = Protocol::kBinary;
    }
    if (session.plain && session.protocol == Protocol::kCouchbase) {
        throw CLI::ValidationError("--plain and --protocol couchbase exclude each other");
    }
}

std::string readPassword(const std::string& path, const char* flag) {
    std::ifstream file(path);
    std::string password;
    try {
        password.assign(std::istreambuf_iterator<char>(file), {});
    } catch (const std::ios_base::failure&) {  // a directory can be opened, but not read
        file.setstate(std::ios_base::failbit);
    }
    if (!file) {
        throw CLI::ValidationError(std::string(flag) + ": cannot read " + path);
    }
    while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
        password.pop_back();
    }
    return password;
}

Secret secretOf(const SessionOptions& session) {
    if (!session.user.empty()) {
        return Secret::kNeeded;
    }
    return isResp(session.protocol) || session.protocol == Protocol::kAuto ? Secret::kOptional
                                                                           : Secret::kNone;
}

void finishConnectionFlags(ConnectionFlags& flags, Secret secret) {
    auto& session = flags.session;
    session.timeout = std::chrono::milliseconds(static_cast<long>(flags.opTimeout * 1000));
    if (!flags.tlsCa.empty()) {
        if (!session.unixPath.empty()) {
            throw CLI::ValidationError("--tls-ca and --unix exclude each other");
        }
        try {
            session.tls = auth::TlsContext::client(flags.tlsCa, flags.tlsCert, flags.tlsKey);
        } catch (const auth::TlsError& error) {
            throw CLI::ValidationError(error.what());
        }
    }
    if (!flags.passwordFile.empty()) {
        session.password = readPassword(flags.passwordFile, "--password-file");
    } else if (!flags.passwordEnv.empty()) {
        // Called before any thread is started.
        const char* value =
                std::getenv(flags.passwordEnv.c_str());  // NOLINT(concurrency-mt-unsafe)
        if (value == nullptr) {
            throw CLI::ValidationError("--password-env: there is no variable " + flags.passwordEnv);
        }
        session.password = value;
    } else if (secret == Secret::kNeeded) {
        throw CLI::ValidationError("--password-file is missing: a password is required");
    }
    if (secret == Secret::kNone && !(flags.passwordFile.empty() && flags.passwordEnv.empty())) {
        throw CLI::ValidationError("--password-file needs --user");
    }
}

CLI::Validator notNegative() {
    return CLI::Validator(
            [](std::string& text) {
                return text.starts_with('-') ? std::string("must not be negative") : std::string();
            },
            "UINT");
}

CLI::Validator positive() {
    return notNegative() & CLI::Range(std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max());
}

int parseFlags(CLI::App& app, int argc, const char* const* argv,
               const std::function<void()>& finish) {
    try {
        app.parse(argc, argv);
        finish();
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        std::cerr << app.get_name() << ": " << error.what() << "\n(see " << app.get_name()
                  << " --help)\n";
        return kExitUsage;
    }
    return -1;
}

}  // namespace kv::load
