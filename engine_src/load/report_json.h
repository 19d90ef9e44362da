#pragma once

// The JSON that the load tools print: schema 1, read by perfrunner.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "load/crew.h"
#include "load/recorder.h"

namespace kv::load {

nlohmann::ordered_json toJson(const Histogram& histogram);
nlohmann::ordered_json toJson(const Errors& errors);
/// {"get": H, "set": H}
nlohmann::ordered_json latencyJson(const Recorder& recorder);
/// Points with t = end of the second, relative to the phase's start; the last may be partial.
nlohmann::ordered_json seriesJson(const Recorder& recorder);
/// Counters, seconds and latencies of a phase; without `inTurn`, the seconds that the phase was in
/// turn, it had all its time and has a series.
nlohmann::ordered_json phaseJson(const Recorder& recorder,
                                 std::optional<Nanos> inTurn = std::nullopt);
/// What the measured phase cost this process: `cpu` per load thread.
nlohmann::ordered_json clientJson(const std::vector<CpuTime>& cpu, double wallSeconds,
                                  std::uint64_t ops);

}  // namespace kv::load
