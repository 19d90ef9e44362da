#pragma once

// The flags that all load tools share: the server, and the user.

#include <functional>
#include <string>

#include "load/protocols/session.h"

// Only declared: CLI11 costs seconds of compile time in every file that includes it.
namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace kv::load {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

struct ConnectionFlags {
    SessionOptions session;
    std::string passwordFile;
    std::string passwordEnv;
    std::string tlsCa;
    std::string tlsCert;
    std::string tlsKey;
    /// True if the tool also speaks other protocols than memcached binary: then there is
    /// --protocol.
    bool anyProtocol = false;
    std::string protocol{};  // as given
    double opTimeout = 10;   // seconds without any answer
};

/// Whether a password is required or accepted.
enum class Secret : std::uint8_t { kNone, kOptional, kNeeded };

/// Adds --host --port --unix --user --password-file --password-env --bucket --plain --tls-ca
/// --tls-cert --tls-key --op-timeout, and --protocol if anyProtocol.
void addConnectionFlags(CLI::App& app, ConnectionFlags& flags);
/// Sets the protocol that --protocol and --plain mean. Throws CLI::ValidationError.
void finishProtocol(ConnectionFlags& flags);
/// Reads the PEM files and the password. The password must be given if it is required and must not
/// if it cannot be used. Throws CLI::ValidationError.
void finishConnectionFlags(ConnectionFlags& flags, Secret secret);
/// Returns the first line of a file. Throws CLI::ValidationError that names `flag`.
std::string readPassword(const std::string& path, const char* flag);
/// Returns whether a server with these options may want a password: a user is given, or none is
/// needed.
Secret secretOf(const SessionOptions& session);
/// A check for 64-bit numbers: CLI11 accepts "-3" as a very large one.
CLI::Validator notNegative();
/// The same for numbers that must be at least 1.
CLI::Validator positive();

/// Parses the flags; `finish` may throw CLI::ValidationError. Returns -1 to continue, otherwise the
/// exit status (0 for --help, 2 for bad usage); messages have been printed then.
int parseFlags(CLI::App& app, int argc, const char* const* argv,
               const std::function<void()>& finish);

}  // namespace kv::load
