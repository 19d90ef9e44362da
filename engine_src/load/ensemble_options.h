#pragma once

// --arm: the servers that one process drives in turn. See turns.h for what that means.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load/common_options.h"

namespace kv::load {

struct Address {
    std::string host;
    std::uint16_t port = 0;
};

/// A server's process and where its CPU clock is read.
struct ServerProcess {
    int pid = 0;                     // on its host
    std::optional<Address> clock{};  // the `kvctl clock-server` there; without: pid is of this host
};

/// One server, or a cluster by one of its nodes.
struct Arm {
    SessionOptions session;
    std::optional<int> pid{};            // of the server, on its host
    std::optional<Address> clock{};      // as of a ServerProcess
    std::vector<ServerProcess> nodes{};  // the other nodes of its cluster

    /// All processes whose CPU time is the arm's; none where it is not asked for.
    std::vector<ServerProcess> processes() const;
};

struct EnsembleFlags {
    std::vector<std::string> texts;  // of --arm, as given
    std::vector<Arm> arms;           // in slot order; empty: one server by --host and --port
    std::uint64_t roundSeed = 0;

    bool given() const noexcept { return !arms.empty(); }
};

/// "HOST:PORT", an IPv6 address in brackets. Empty if it is not that.
std::optional<Address> parseAddress(std::string_view text);
/// "ADDR[:PORT]" to listen on; port 0 if none is given.
Address parseListen(std::string_view text);

/// Adds --arm and --round-seed.
void addEnsembleFlags(CLI::App& app, EnsembleFlags& flags);
/// To be called instead of finishConnectionFlags(); `sliceFlag` names the tool's flag for the
/// length of a slice. Throws CLI::ValidationError.
void finishEnsembleFlags(const CLI::App& app, const char* sliceFlag, ConnectionFlags& connection,
                         EnsembleFlags& flags);
}  // namespace kv::load
