#pragma once

// The flags that all load tools share: where the server is, and who we are.

#include <functional>
#include <string>

#include "load/session.h"

// Only declared: CLI11 costs seconds in every file that includes it.
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
    double opTimeout = 10;  // seconds without any answer
};

/// Adds --host --port --user --password-file --bucket --plain --op-timeout.
void addConnectionFlags(CLI::App& app, ConnectionFlags& flags);
/// Reads the password file, which must be given if and only if `secret`: somebody has to prove that
/// he knows a password. Throws CLI::ValidationError.
void finishConnectionFlags(ConnectionFlags& flags, bool secret);
/// A check for 64-bit numbers: CLI11 takes "-3" for a very large one.
CLI::Validator notNegative();
/// The same for what must be at least 1.
CLI::Validator positive();

/// Parses; `finish` may throw CLI::ValidationError. Gives -1 to go on, else the exit status (0 for
/// --help, 2 for bad usage); messages have been printed then.
int parseFlags(CLI::App& app, int argc, const char* const* argv,
               const std::function<void()>& finish);

}  // namespace kv::load
