#include "load/common_options.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
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
    app.add_option("--user", session.user, "authenticate as this user");
    app.add_option("--password-file", flags.passwordFile, "file that holds the user's password");
    app.add_option("--bucket", session.bucket, "bucket to select")->capture_default_str();
    app.add_flag("--plain", session.plain, "plain memcached: send no session commands, vBucket 0");
    app.add_option("--op-timeout", flags.opTimeout, "seconds without an answer that are a failure")
            ->capture_default_str()
            ->check(CLI::Range(0.01, 3600.0));
}

void finishConnectionFlags(ConnectionFlags& flags, bool secret) {
    auto& session = flags.session;
    session.timeout = std::chrono::milliseconds(static_cast<long>(flags.opTimeout * 1000));
    if (secret == flags.passwordFile.empty()) {
        throw CLI::ValidationError(secret ? "--password-file is missing: a password is to be proved"
                                          : "--password-file is for nobody: --user is missing");
    }
    if (session.plain && !session.user.empty()) {
        throw CLI::ValidationError("--plain sends no session commands, so it cannot authenticate");
    }
    if (!flags.passwordFile.empty()) {
        std::ifstream file(flags.passwordFile);
        if (!file) {
            throw CLI::ValidationError("--password-file: cannot read " + flags.passwordFile);
        }
        session.password.assign(std::istreambuf_iterator<char>(file), {});
        while (!session.password.empty() &&
               (session.password.back() == '\n' || session.password.back() == '\r')) {
            session.password.pop_back();
        }
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
