#include "benchmarks/latency_phases.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace kv::bench {

namespace {

using Clock = std::chrono::steady_clock;

/// Longer than a read from memory takes, so prefetched data has arrived by then.
constexpr std::chrono::nanoseconds kPrefetchTime{500};

void letPrefetchesArrive() {
    const auto end = Clock::now() + kPrefetchTime;
    while (Clock::now() < end) {
    }
}

using Document = LatencyDocument;

/// Times operation(document, now) for every document; prepare(document) runs before its start
/// stamp.
template <class Prepare, class Operation>
void timeEach(const std::string& name, BucketMemory& memory, std::span<const Document> documents,
              std::span<uint64_t> times, Prepare prepare, Operation operation) {
    // A front-end thread holds one guard around its batches: answers are dropped under it.
    const BucketMemoryGuard guard(memory);
    for (size_t i = 0; i < documents.size(); ++i) {
        prepare(documents[i]);
        const OpTime now = OpTime::now();
        const auto start = Clock::now();
        const OpResult result = operation(documents[i], now);
        const auto end = Clock::now();
        if (!result.ok()) {
            throw std::runtime_error(name + " of " + documents[i].key + ": " +
                                     std::string(kv::toString(result.status)));
        }
        times[i] = static_cast<uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
    }
}

}  // namespace

LatencyPhases::LatencyPhases(Bucket& bucket, const LatencyOptions& options,
                             std::function<std::chrono::nanoseconds()> transfer)
    : value_(options.valueSize, 'x') {
    documents_.reserve(options.items);
    for (size_t i = 0; i < options.items; ++i) {
        documents_.push_back({"0" + std::to_string(i), options.vbucketOf(i)});
    }
    const auto addAfter = [&](auto prepare, const std::string& name, auto operation) {
        const auto run = [this, &bucket, name, prepare, operation](size_t first,
                                                                   std::span<uint64_t> times) {
            const auto mine = std::span<const Document>(documents_).subspan(first, times.size());
            timeEach(name, bucket.memory(), mine, times, prepare, operation);
        };
        phases_.push_back({name, documents_.size(), run, {}});
    };
    const auto add = [&](const std::string& name, auto operation) {
        addAfter([](const Document&) {}, name, operation);
    };
    const auto get = [&bucket](const Document& document, const OpTime& now) {
        return bucket.get(document.vbid, document.key, now);
    };
    add("add", [this, &bucket](const Document& document, const OpTime& now) {
        return bucket.store(document.vbid, document.key, StoreMode::Add, value_, {}, now);
    });
    if (options.backlog == Backlog::Alone) {
        const auto run = [transfer = std::move(transfer)](size_t, std::span<uint64_t> times) {
            times.front() = static_cast<uint64_t>(transfer().count());
        };
        phases_.push_back({std::string(kTransfer), 1, run, {}});
    }
    add("get", get);
    if (options.probeGet) {
        const auto prefetchLine = [&bucket](const Document& document) {
            bucket.prefetchKey(document.vbid, hashKey(document.key));
            letPrefetchesArrive();
        };
        addAfter(prefetchLine, "get/line", get);
        add("get/cached", [this, get](const Document&, const OpTime& now) {
            return get(documents_.front(), now);
        });
    }
    add("replace", [this, &bucket](const Document& document, const OpTime& now) {
        return bucket.store(document.vbid, document.key, StoreMode::Replace, value_, {}, now);
    });
    add("delete", [&bucket](const Document& document, const OpTime& now) {
        return bucket.remove(document.vbid, document.key, {}, now);
    });
}

std::vector<LatencyPhases::Length> LatencyPhases::lengths() const {
    std::vector<Length> lengths;
    for (const Phase& phase : phases_) {
        lengths.push_back({phase.name, phase.operations});
    }
    return lengths;
}

std::span<const uint64_t> LatencyPhases::advance(size_t count) {
    Phase& phase = phases_[current_];
    phase.nanos.resize(phase.operations);  // at once, so that no operation waits for its page
    const auto times = std::span<uint64_t>(phase.nanos).subspan(position_, count);
    phase.run(position_, times);
    position_ += count;
    if (position_ == phase.operations) {
        ++current_;
        position_ = 0;
    }
    return times;
}

std::vector<PhaseTimes> LatencyPhases::take() {
    std::vector<PhaseTimes> times;
    for (Phase& phase : phases_) {
        times.push_back({phase.name, std::move(phase.nanos)});
    }
    return times;
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
