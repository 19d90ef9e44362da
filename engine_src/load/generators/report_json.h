#pragma once

// The JSON that the load tools print: schema 1, read by perfrunner.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "load/core/recorder.h"
#include "load/core/thread_team.h"

namespace kv::load {

nlohmann::ordered_json toJson(const Histogram& histogram);
nlohmann::ordered_json toJson(const Errors& errors);
/// Adds the text of the first request that the server refused, if it gave one.
void addRefusal(nlohmann::ordered_json& phase, const Recorder& recorder);
/// {"get": H, "set": H}
nlohmann::ordered_json latencyJson(const Recorder& recorder);
/// Returns points with t = end of the second, relative to the phase's start; the last may be
/// partial.
nlohmann::ordered_json seriesJson(const Recorder& recorder);
/// Returns counters, seconds and latencies of a phase. `sliceTime` is the time in seconds that the
/// phase was under load; without it, the phase had all its time and has a series.
nlohmann::ordered_json phaseJson(const Recorder& recorder,
                                 std::optional<Nanos> sliceTime = std::nullopt);
/// Returns what the measured phase cost this process: `cpu` per load thread.
nlohmann::ordered_json clientJson(const std::vector<CpuTime>& cpu, double wallSeconds,
                                  std::uint64_t ops);

}  // namespace kv::load
