#pragma once

#include <cstdint>
#include <optional>

#include "load/core/socket.h"
#include "load/generators/common_options.h"

namespace kv::load {

/// The values of the flags of a load by mixed batches of GET and SET: each tool stores them in its
/// own options.
struct MixedFlags {
    std::uint64_t& items;
    std::uint64_t& startAt;  // number of the first key
    std::uint32_t& threads;
    std::uint32_t& connections;
    std::uint32_t& batch;
    double& setPercent;
    std::uint32_t& minSize;
    std::uint32_t& maxSize;
    std::uint64_t& seed;
    std::uint32_t& vbuckets;  // 0: ask the server
    double& duration;         // seconds
    double& ramp;             // seconds
    std::optional<Address>& barrier;
};

/// Adds --num-items --start-at --num-threads --connections --batch-size --set-pct --min-size
/// --max-size --random-seed --vbuckets --duration --ramp --barrier. `connections` and `duration`
/// are the tool's help texts of these two flags.
void addMixedFlags(CLI::App& app, const MixedFlags& flags, const char* connections,
                   const char* duration);
/// Throws CLI::ValidationError if they contradict each other.
void finishMixedFlags(const MixedFlags& flags);
/// Throws CLI::ValidationError(what) unless ok.
void require(bool ok, const char* what);

}  // namespace kv::load
