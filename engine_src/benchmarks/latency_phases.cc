#include "benchmarks/latency_phases.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

namespace kv::bench {

namespace {

constexpr Vbid kVb{0};
using Clock = std::chrono::steady_clock;

/// Longer than a read from memory takes: what was prefetched before it has arrived after it.
constexpr std::chrono::nanoseconds kPrefetchTime{500};

void letPrefetchesArrive() {
    const auto end = Clock::now() + kPrefetchTime;
    while (Clock::now() < end) {
    }
}

/// Times operation(key, now) for every key; prepare(key) runs before its start stamp.
template <class Prepare, class Operation>
PhaseTimes timeEach(const char* name, BucketMemory& memory, const std::vector<std::string>& keys,
                    Prepare prepare, Operation operation) {
    PhaseTimes phase{name, std::vector<uint64_t>(keys.size())};
    // A front-end thread holds one guard around its batches: answers are dropped under it.
    const BucketMemoryGuard guard(memory);
    for (size_t i = 0; i < keys.size(); ++i) {
        prepare(keys[i]);
        const OpTime now = OpTime::now();
        const auto start = Clock::now();
        const OpResult result = operation(keys[i], now);
        const auto end = Clock::now();
        if (!result.ok()) {
            throw std::runtime_error(std::string(name) + " of " + keys[i] + ": " +
                                     std::string(kv::toString(result.status)));
        }
        phase.nanos[i] = static_cast<uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
    }
    return phase;
}

}  // namespace

std::vector<PhaseTimes> runPhases(Bucket& bucket, const LatencyOptions& options) {
    std::vector<std::string> keys;
    keys.reserve(options.items);
    for (size_t i = 0; i < options.items; ++i) {
        keys.push_back("0" + std::to_string(i));
    }
    const std::string value(options.valueSize, 'x');
    std::vector<PhaseTimes> phases;
    const auto runAfter = [&](auto prepare, const char* name, auto operation) {
        phases.push_back(timeEach(name, bucket.memory(), keys, prepare, operation));
    };
    const auto run = [&](const char* name, auto operation) {
        runAfter([](const std::string&) {}, name, operation);
    };
    const auto get = [&](const std::string& key, const OpTime& now) {
        return bucket.get(kVb, key, now);
    };
    run("add", [&](const std::string& key, const OpTime& now) {
        return bucket.store(kVb, key, StoreMode::Add, value, {}, now);
    });
    run("get", get);
    if (options.probeGet) {
        const auto prefetchLine = [&](const std::string& key) {
            bucket.prefetchKey(kVb, hashKey(key));
            letPrefetchesArrive();
        };
        runAfter(prefetchLine, "get/line", get);
        run("get/cached",
            [&](const std::string&, const OpTime& now) { return get(keys.front(), now); });
    }
    run("replace", [&](const std::string& key, const OpTime& now) {
        return bucket.store(kVb, key, StoreMode::Replace, value, {}, now);
    });
    run("delete", [&](const std::string& key, const OpTime& now) {
        return bucket.remove(kVb, key, {}, now);
    });
    return phases;
}

PhaseSummary summarise(std::vector<uint64_t> nanos) {
    PhaseSummary summary;
    summary.sorted = std::move(nanos);
    std::sort(summary.sorted.begin(), summary.sorted.end());
    const size_t n = summary.sorted.size();
    summary.count = n;
    if (n == 0) {
        return summary;
    }
    const auto percentile = [&](size_t p) {
        return static_cast<double>(summary.sorted[n * p / 100]) / 1e3;
    };
    summary.p50Us = percentile(50);
    summary.p95Us = percentile(95);
    summary.p99Us = percentile(99);
    summary.maxUs = static_cast<double>(summary.sorted.back()) / 1e3;
    double sum = 0;
    for (const uint64_t ns : summary.sorted) {
        sum += static_cast<double>(ns) / 1e3;
    }
    summary.meanUs = sum / static_cast<double>(n);
    double squares = 0;
    for (const uint64_t ns : summary.sorted) {
        const double off = static_cast<double>(ns) / 1e3 - summary.meanUs;
        squares += off * off;
    }
    summary.sdUs = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
    return summary;
}

}  // namespace kv::bench
