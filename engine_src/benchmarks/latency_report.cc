#include "benchmarks/latency_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "allocators/allocator.h"
#include "options/build_info.h"

namespace kv::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBins = 32;

/// Counts between the fastest operation and the 99th percentile; slower ones are in the last bin.
std::string sparkline(const PhaseSummary& phase) {
    static constexpr std::array<const char*, 9> kBars{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    if (phase.sorted.empty()) {
        return {};
    }
    const auto low = static_cast<double>(phase.sorted.front());
    const double width = std::max(1.0, (phase.p99Us * 1e3 - low) / kBins);
    std::array<size_t, kBins> bins{};
    for (const uint64_t ns : phase.sorted) {
        const auto bin = static_cast<size_t>((static_cast<double>(ns) - low) / width);
        ++bins[std::min(bin, kBins - 1)];
    }
    const size_t most = *std::max_element(bins.begin(), bins.end());
    std::string line;
    for (const size_t bin : bins) {
        const size_t height = bin == 0 ? 0 : 1 + bin * (kBars.size() - 2) / most;
        line += kBars[std::min(height, kBars.size() - 1)];
    }
    return line;
}

/// [[upper bound in ns, count], ...]: buckets an eighth of a power of two wide, empty ones left
/// out.
Json histogram(const PhaseSummary& phase) {
    std::map<uint64_t, uint64_t> buckets;
    for (const uint64_t ns : phase.sorted) {
        uint64_t width = 1;
        while (ns / width >= 16) {
            width *= 2;
        }
        ++buckets[(ns / width + 1) * width];
    }
    Json list = Json::array();
    for (const auto& [upper, count] : buckets) {
        list.push_back({upper, count});
    }
    return list;
}

Json phaseJson(const PhaseSummary& phase) {
    return {{"p50_us", phase.p50Us}, {"p95_us", phase.p95Us},         {"p99_us", phase.p99Us},
            {"sd_us", phase.sdUs},   {"mean_us", phase.meanUs},       {"max_us", phase.maxUs},
            {"n", phase.count},      {"buckets_ns", histogram(phase)}};
}

Json optionsJson(const LatencyOptions& options) {
    return {{"items", options.items},
            {"value_size", options.valueSize},
            {"bucket_type", std::string(kv::toString(options.bucket))},
            {"dcp", toString(options.dcp)},
            {"backlog", toString(options.backlog)},
            {"vbuckets", options.vbuckets},
            {"busy_vbuckets", options.busyVbuckets},
            {"producer_slots", options.producerSlots},
            {"ht_size", options.htSize},
            {"chk_max_items", options.checkpointItems},
            {"max_checkpoints", options.maxCheckpoints},
            {"snapshot_interval_us", options.snapshotInterval.count()},
            {"buffer_size", options.bufferSize},
            {"ack_above", options.acknowledgeAbove}};
}

Json pairsJson(const std::vector<std::pair<std::string, std::string>>& pairs) {
    Json object = Json::object();
    for (const auto& [key, value] : pairs) {
        object[key] = value;
    }
    return object;
}

}  // namespace

std::string latencyTable(const LatencyReport& report) {
    const std::string with =
            report.options.dcp == DcpMode::None
                    ? "Baseline"
                    : fmt::format("With background DCP, {}", toString(report.options.dcp));
    std::string text = fmt::format("Latency [{}] - {} items of {} B, {} bucket (us)\n", with,
                                   report.options.items, report.options.valueSize,
                                   kv::toString(report.options.bucket));
    text += fmt::format("{:11}{:>9}{:>10}{:>10}{:>10}   {}\n", "", "Median", "95th %", "99th %",
                        "Std Dev", "Histogram up to the 99th %");
    for (const auto& [name, phase] : report.phases) {
        text += fmt::format("{:11}{:>9.3f}{:>10.3f}{:>10.3f}{:>10.3f}   {}\n", name, phase.p50Us,
                            phase.p95Us, phase.p99Us, phase.sdUs, sparkline(phase));
    }
    if (report.dcp) {
        text += fmt::format("DCP: {} messages, {} documents, {} snapshots, {} bytes, {} wake-ups\n",
                            report.dcp->messages, report.dcp->documents, report.dcp->snapshots,
                            report.dcp->bytes, report.dcp->wakeups);
    }
    if (report.itemsPerSecond) {
        text += fmt::format("DCP alone: {:.0f} items/s\n", *report.itemsPerSecond);
    }
    return text;
}

std::string latencyJson(const LatencyReport& report) {
    Json json{{"tool", "front_end_latency"},
              {"schema", 1},
              {"build", pairsJson(options::buildInfo())},
              {"allocator",
               {{"name", allocator::name()},
                {"version", allocator::version()},
                {"options", pairsJson(allocator::options())}}},
              {"options", optionsJson(report.options)}};
    for (const auto& [name, phase] : report.phases) {
        json["phases"][name] = phaseJson(phase);
    }
    json["dcp"] = nullptr;
    if (report.dcp) {
        const DcpCounts& dcp = *report.dcp;
        json["dcp"] = {{"messages", dcp.messages},   {"documents", dcp.documents},
                       {"snapshots", dcp.snapshots}, {"bytes", dcp.bytes},
                       {"wakeups", dcp.wakeups},     {"snapshot_runs", dcp.snapshotRuns},
                       {"pauses", dcp.pauses}};
        for (const auto& [phase, documents] : report.received) {
            json["dcp"]["documents_after"][phase] = documents;
        }
        if (report.itemsPerSecond) {
            json["dcp"]["items_per_s"] = *report.itemsPerSecond;
        }
    }
    return json.dump();
}

}  // namespace kv::bench
