#include "load/generators/mixed_options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <string>

namespace kv::load {

namespace {
constexpr std::uint32_t kMaxValue = 20U << 20U;
}  // namespace

void addMixedFlags(CLI::App& app, const MixedFlags& flags, const char* connections,
                   const char* duration) {
    app.add_option("-I,--num-items", flags.items, "number of keys")
            ->capture_default_str()
            ->check(positive());
    app.add_option("--start-at", flags.startAt, "number of the first key")
            ->capture_default_str()
            ->check(notNegative());
    app.add_option("-t,--num-threads", flags.threads)
            ->capture_default_str()
            ->check(CLI::Range(1, 1024));
    app.add_option("--connections", flags.connections, connections)
            ->capture_default_str()
            ->check(CLI::Range(1, 1024));
    app.add_option("-B,--batch-size", flags.batch, "operations in a batch")
            ->capture_default_str()
            ->check(CLI::Range(1, 1000000));
    app.add_option("-r,--set-pct", flags.setPercent, "share of SETs")
            ->capture_default_str()
            ->check(CLI::Range(0.0, 100.0));
    app.add_option("-m,--min-size", flags.minSize, "smallest value")
            ->capture_default_str()
            ->check(CLI::Range(0U, kMaxValue));
    app.add_option("-M,--max-size", flags.maxSize, "largest value")
            ->capture_default_str()
            ->check(CLI::Range(0U, kMaxValue));
    app.add_option("--random-seed", flags.seed)->capture_default_str()->check(notNegative());
    app.add_option("--vbuckets", flags.vbuckets, "size of the vBucket map (0: ask the server)")
            ->check(CLI::Range(0, 65536));
    app.add_option("--duration", flags.duration, duration)->check(CLI::PositiveNumber);
    app.add_option("--ramp", flags.ramp, "first seconds left out of the latency histograms")
            ->check(CLI::NonNegativeNumber);
    app.add_option_function<std::string>(
            "--barrier",
            [&barrier = flags.barrier](const std::string& text) {
                barrier = parseAddress(text);
                if (!barrier) {
                    throw CLI::ValidationError("--barrier is not HOST:PORT: " + text);
                }
            },
            "HOST:PORT of kvctl barrier: begin the mixed phase when all its parties do");
}

void require(bool ok, const char* what) {
    if (!ok) {
        throw CLI::ValidationError(what);
    }
}

void finishMixedFlags(const MixedFlags& flags) {
    require(flags.minSize <= flags.maxSize, "--min-size is larger than --max-size");
    require(flags.startAt <= std::numeric_limits<std::uint64_t>::max() - flags.items,
            "--start-at plus --num-items exceeds 64 bits");
    require(flags.ramp == 0 || flags.duration == 0 || flags.ramp < flags.duration,
            "--ramp must be shorter than --duration");
}

}  // namespace kv::load
