// Measures the generator's cost per operation in each protocol: CPU of its load thread, including
// kernel work on its socket, against a server inside this process that is not counted. One
// connection, batches of 100, values of 256 bytes, 80 % SET.
#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>

#include "load/core/load_error.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/fake_server.h"

namespace kv::load {
namespace {

constexpr std::uint64_t kOps = 200'000;

nlohmann::ordered_json load(const PillowfightOptions& options) {
    nlohmann::ordered_json report;
    const auto result = runPillowfight(options, report);
    if (!result.failure.empty()) {
        throw LoadError(result.failure);
    }
    return report;
}

void costOf(benchmark::State& state, Protocol protocol) {
    FakeServer server({.speaks = protocol, .vbuckets = 1024});
    PillowfightOptions options;
    options.connection.session.port = server.port();
    options.connection.session.protocol = protocol;
    options.minSize = options.maxSize = 256;
    options.access.items = 10'000;
    options.access.batch = 100;
    options.access.setPercent = 80;
    options.access.maxOps = kOps;
    options.populateOnly = true;
    load(options);
    options.populateOnly = false;
    options.noPopulation = true;
    for (auto _ : state) {
        const auto client = load(options)["client"];
        const double cpu = client["cpu_user_s"].get<double>() + client["cpu_sys_s"].get<double>();
        state.SetIterationTime(cpu);
        state.counters["us_per_op"] = client["cpu_us_per_op"].get<double>();
        state.counters["user_us_per_op"] =
                client["cpu_user_s"].get<double>() * 1e6 / static_cast<double>(kOps);
    }
}

void add(Protocol protocol) {
    benchmark::RegisterBenchmark(("Generator/" + std::string(toString(protocol))).c_str(),
                                 [protocol](benchmark::State& state) { costOf(state, protocol); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond)
            ->Iterations(1);
}

}  // namespace
}  // namespace kv::load

int main(int argc, char** argv) {
    kv::load::ThreadTeam::blockSignals();
    using kv::load::Protocol;
    for (const auto protocol : {Protocol::kCouchbase, Protocol::kBinary, Protocol::kText,
                                Protocol::kMeta, Protocol::kResp2, Protocol::kResp3}) {
        kv::load::add(protocol);
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
