#include "benchmarks/latency_source.h"

#include <algorithm>
#include <stdexcept>

#include "benchmarks/build_context.h"

namespace kv::bench {

namespace {
/// Slices per phase. By number and not by time: a median is over that number of operations,
/// including those that the client slowed down.
constexpr int64_t kSlices = 100;
}  // namespace

std::vector<std::pair<std::string, std::string>> LatencySource::context() {
    return buildContext();
}

std::vector<slices::Offer> LatencySource::offers() {
    std::vector<slices::Offer> offers;
    for (const auto& [name, operations] : session_.phases().lengths()) {
        const auto length = static_cast<int64_t>(operations);
        offers.push_back({.name = name,
                          .full = name,
                          .pass = length,
                          .once = true,
                          .step = std::max<int64_t>(1, length / kSlices)});
    }
    return offers;
}

slices::Slice LatencySource::run(const std::string& name, int64_t operations) {
    const LatencyPhases& phases = session_.phases();
    if (phases.done() || phases.current() != name) {
        throw std::invalid_argument(name + " is not in turn: " +
                                    (phases.done() ? "all phases are done" : phases.current()));
    }
    const auto count = static_cast<size_t>(operations);
    const size_t left = phases.left();
    if (count > left) {
        throw std::invalid_argument(name + " has " + std::to_string(left) + " operations left");
    }
    const auto times = session_.advance(count);
    slices::Slice slice{.iterations = operations, .left = static_cast<int64_t>(left - count)};
    for (const uint64_t ns : times) {
        slice.realNs += static_cast<double>(ns);
    }
    const PhaseSummary summary = summarise({times.begin(), times.end()});
    slice.counters = {
            {"p50_us", summary.p50Us}, {"p95_us", summary.p95Us}, {"p99_us", summary.p99Us}};
    return slice;
}

std::string LatencySource::report() {
    if (report_.empty() && session_.phases().done()) {
        report_ = latencyJson(session_.finish());
    }
    return report_.empty() ? "null" : report_;
}

}  // namespace kv::bench
