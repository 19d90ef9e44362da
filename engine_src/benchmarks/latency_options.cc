#include "benchmarks/latency_options.h"

#include <CLI/CLI.hpp>
#include <map>

namespace kv::bench {

std::optional<LatencyOptions> parseLatencyOptions(int argc, char** argv, int& exitCode) {
    LatencyOptions options;
    const std::map<std::string, BucketType> buckets{{"persistent", BucketType::Persistent},
                                                    {"ephemeral", BucketType::Ephemeral}};
    const std::map<std::string, DcpMode> modes{
            {"none", DcpMode::None}, {"busy", DcpMode::Busy}, {"notify", DcpMode::Notify}};
    CLI::App app(
            "Latency of Add, Get, Replace and Delete inside the process, each timed alone. "
            "JSON on stdout, a table on stderr.");
    app.add_option("-I,--items", options.items, "documents")
            ->check(CLI::Range(size_t{1}, size_t{100'000'000}))
            ->capture_default_str();
    app.add_option("--value-size", options.valueSize, "bytes of a value")
            ->check(CLI::Range(size_t{0}, size_t{20} << 20))
            ->capture_default_str();
    app.add_option("--bucket-type", options.bucket, "persistent (its flusher stopped) | ephemeral")
            ->transform(CLI::CheckedTransformer(buckets));
    app.add_option("--dcp", options.dcp, "background DCP client: none | busy | notify")
            ->transform(CLI::CheckedTransformer(modes));
    app.add_option("--producer-slots", options.producerSlots, "vBuckets the producer provides for")
            ->check(CLI::Range(1, 65'535))
            ->capture_default_str();
    app.add_option("--ht-size", options.htSize,
                   "hash buckets; 0 = what the engine's resizer gives so many items "
                   "(historic: 393209)")
            ->check(CLI::Range(0, 100'000'000))
            ->capture_default_str();
    app.add_option("--chk-max-items", options.checkpointItems, "items that close a checkpoint")
            ->check(CLI::Range(1, 100'000'000))
            ->capture_default_str();
    app.add_option("--max-checkpoints", options.maxCheckpoints, "checkpoints of the vBucket")
            ->check(CLI::Range(2, 1'000'000))
            ->capture_default_str();
    app.add_option("--buffer-size", options.bufferSize, "DCP flow-control buffer, bytes")
            ->check(CLI::Range(1, 1 << 30))
            ->capture_default_str();
    app.add_option("--ack-above", options.acknowledgeAbove,
                   "unacknowledged bytes the client allows")
            ->check(CLI::Range(0, 1 << 30))
            ->capture_default_str();
    app.add_option_function<unsigned>(
               "--snapshot-interval-us",
               [&options](unsigned us) {
                   options.snapshotInterval = std::chrono::microseconds(us);
               },
               "least time between two snapshots; 0 = none, as historically (default 500)")
            ->check(CLI::Range(0, 10'000'000));
    app.add_flag("--probe-get", options.probeGet,
                 "two more passes of Get that tell what it waits for: with its line of "
                 "the hash table prefetched, and of one key again and again");
    app.add_flag("--slices", options.slices, "run nothing, but answer a conductor on stdin");
    app.add_option("--drain-seconds", options.drainSeconds,
                   "how long to wait for the client at the end")
            ->capture_default_str();
    app.add_option("--data-dir", options.dataDir,
                   "persistent: an empty directory to use (default: a temporary one)");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        exitCode = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
    if (options.acknowledgeAbove >= options.bufferSize) {
        fprintf(stderr, "--ack-above must be below --buffer-size: the client would never get on\n");
        exitCode = 2;
        return std::nullopt;
    }
    return options;
}

}  // namespace kv::bench
