#pragma once

// --variant: the servers that one process drives alternately. slice_schedule.h explains slices.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load/core/socket.h"
#include "load/generators/common_options.h"

namespace kv::load {

/// A server's process and the place where its CPU clock is read.
struct ServerProcess {
    int pid = 0;                     // on its host
    std::optional<Address> clock{};  // the `kvctl clock-server` there; empty: pid is of this host
};

/// One server, or a cluster that is given by one of its nodes.
struct Variant {
    SessionOptions session;
    std::optional<int> pid{};            // of the server, on its host
    std::optional<Address> clock{};      // as in ServerProcess
    std::vector<ServerProcess> nodes{};  // the other nodes of its cluster
    Protocol protocolAsked{};            // the protocol as given, before the server was asked
    std::string passwordFile{};          // instead of the common password
    std::string clockPassword{};         // of the clock servers; empty: that of the session

    /// Returns all processes whose CPU time is the variant's; none if it was not requested.
    std::vector<ServerProcess> processes() const;
};

struct GroupFlags {
    std::vector<std::string> texts;  // of --variant, as given
    // In the order of the flags; empty: one server by --host and --port.
    std::vector<Variant> variants;
    std::uint64_t roundSeed = 0;
    double idle = 0;  // seconds without load before the first slice

    bool given() const noexcept { return !variants.empty(); }
};

/// Adds --variant, --round-seed and --idle.
void addGroupFlags(CLI::App& app, GroupFlags& flags);
/// Call it instead of finishConnectionFlags(); `sliceFlag` names the tool's flag for the length of
/// a slice. Throws CLI::ValidationError.
void finishGroupFlags(const CLI::App& app, const char* sliceFlag, ConnectionFlags& connection,
                      GroupFlags& flags);
}  // namespace kv::load
