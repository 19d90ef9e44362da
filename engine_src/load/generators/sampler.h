#pragma once

// Periodic samples of a server process: STAT memory and /proc, one directly after the other, one
// JSON line each.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "load/protocols/client.h"

namespace kv::load {

/// Returns one sample in the form that perfrunner reads.
nlohmann::ordered_json takeSample(Client& client, int pid);

struct SamplerOptions {
    int pid = 0;
    int intervalMs = 1000;
    std::string out;  // appended to; each line is flushed
};

/// Takes a sample at once and then every interval (on a fixed grid, without drift) until SIGTERM or
/// SIGINT, which must be blocked (ThreadTeam::blockSignals); then takes one last sample and
/// returns. Throws LoadError if the server is gone or the file cannot be written.
void runSampler(Client& client, const SamplerOptions& options);

/// Returns the numeric figures of a STAT group, without text.
nlohmann::ordered_json numbersOf(const std::map<std::string, std::string>& group);

}  // namespace kv::load
