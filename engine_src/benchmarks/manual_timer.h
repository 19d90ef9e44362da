// Timing of short sections that need an untimed set-up each: the clock's own cost is measured once
// and subtracted.
//
// Google Benchmark's PauseTiming costs about as much as the sections that the checkpoint benchmarks
// time, so they use manual time.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace kv::bench {

using Clock = std::chrono::steady_clock;

/// Returns the seconds that an empty timed section reads: the median over many.
inline double emptySectionSeconds() {
    static const double kCost = [] {
        std::vector<double> readings(10'001);
        for (auto& reading : readings) {
            const auto start = Clock::now();
            reading = std::chrono::duration<double>(Clock::now() - start).count();
        }
        std::nth_element(readings.begin(), readings.begin() + 5'000, readings.end());
        return readings[5'000];
    }();
    return kCost;
}

/// The clock's tick: the shortest measurable duration of a section.
inline constexpr double kTickSeconds = std::chrono::duration<double>(Clock::duration(1)).count();

/// Runs `section` and returns its seconds without the clock's cost. A section as short as the
/// clock's resolution counts as one tick: a bound, because a ratio to zero would be meaningless.
template <class Section>
double timed(Section&& section) {
    const auto start = Clock::now();
    section();
    const double raw = std::chrono::duration<double>(Clock::now() - start).count();
    return std::max(kTickSeconds, raw - emptySectionSeconds());
}

}  // namespace kv::bench
