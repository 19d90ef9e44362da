#pragma once

// Periodic samples of a server process: STAT memory and /proc, back to back, one JSON line each.

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "load/client.h"

namespace kv::load {

/// One instant as perfrunner reads it.
nlohmann::ordered_json takeSample(Client& client, int pid);

struct SamplerOptions {
    int pid = 0;
    int intervalMs = 1000;
    std::string out;  // appended to; each line is flushed
};

/// Samples at once and then every interval (on a fixed grid, without drift) until SIGTERM or
/// SIGINT, which must be blocked (Crew::blockSignals); then takes one last sample and returns.
/// Throws LoadError when the server is gone or the file cannot be written.
void runSampler(Client& client, const SamplerOptions& options);

/// The numeric figures of a STAT group; text is left out.
nlohmann::ordered_json numbersOf(const std::map<std::string, std::string>& group);

}  // namespace kv::load
