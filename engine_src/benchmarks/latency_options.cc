#include "benchmarks/latency_options.h"

#include <CLI/CLI.hpp>
#include <map>

namespace kv::bench {

namespace {

/// Returns what is wrong with options that are each valid alone; empty if nothing is.
std::string contradiction(const LatencyOptions& options) {
    if (options.acknowledgeAbove >= options.bufferSize) {
        return "--ack-above must be below --buffer-size: the client would never continue";
    }
    if (options.busyVbuckets > options.vbuckets) {
        return "--busy-vbuckets must not be more than --vbuckets";
    }
    if (options.vbuckets > options.producerSlots) {
        return "--producer-slots must not be fewer than --vbuckets";
    }
    if (options.backlog != Backlog::None && options.dcp == DcpMode::None) {
        return "--backlog needs a client: --dcp busy or notify";
    }
    if (options.backlog != Backlog::None && options.bucket == BucketType::Ephemeral) {
        return "--backlog needs a persistent bucket: an ephemeral one keeps nothing in memory for "
               "a client that comes later";
    }
    return {};
}

void addDocumentFlags(CLI::App& app, LatencyOptions& options) {
    const std::map<std::string, BucketType> buckets{{"persistent", BucketType::Persistent},
                                                    {"ephemeral", BucketType::Ephemeral}};
    app.add_option("-I,--items", options.items, "documents")
            ->check(CLI::Range(size_t{1}, size_t{100'000'000}))
            ->capture_default_str();
    app.add_option("--value-size", options.valueSize, "bytes of a value")
            ->check(CLI::Range(size_t{0}, size_t{20} << 20))
            ->capture_default_str();
    app.add_option("--bucket-type", options.bucket, "persistent (its flusher stopped) | ephemeral")
            ->transform(CLI::CheckedTransformer(buckets));
}

void addClientFlags(CLI::App& app, LatencyOptions& options) {
    const std::map<std::string, DcpMode> modes{
            {"none", DcpMode::None}, {"busy", DcpMode::Busy}, {"notify", DcpMode::Notify}};
    const std::map<std::string, Backlog> backlogs{
            {"none", Backlog::None}, {"beside", Backlog::Beside}, {"alone", Backlog::Alone}};
    app.add_option("--dcp", options.dcp, "background DCP client: none | busy | notify")
            ->transform(CLI::CheckedTransformer(modes));
    app.add_option(
               "--backlog", options.backlog,
               "when the client opens its streams: none = before the first Add | beside = after "
               "the last, during Get, Replace and Delete (a rebalance) | alone = the same, "
               "but they wait until it has everything, which is timed as items a second")
            ->transform(CLI::CheckedTransformer(backlogs));
}

void addSizeFlags(CLI::App& app, LatencyOptions& options) {
    app.add_option("--vbuckets", options.vbuckets, "active vBuckets, each with a stream")
            ->check(CLI::Range(1, 65'535))
            ->capture_default_str();
    app.add_option("--busy-vbuckets", options.busyVbuckets,
                   "vBuckets over which the documents are distributed; 0 = all")
            ->check(CLI::Range(0, 65'535))
            ->capture_default_str();
    app.add_option("--producer-slots", options.producerSlots, "vBuckets the producer provides for")
            ->check(CLI::Range(1, 65'535))
            ->capture_default_str();
    app.add_option("--ht-size", options.htSize,
                   "hash buckets of a vBucket; 0 = what the engine's resizer gives its items "
                   "(historic: 393209)")
            ->check(CLI::Range(0, 100'000'000))
            ->capture_default_str();
    app.add_option("--chk-max-items", options.checkpointItems, "items that close a checkpoint")
            ->check(CLI::Range(1, 100'000'000))
            ->capture_default_str();
    app.add_option("--max-checkpoints", options.maxCheckpoints, "checkpoints of a vBucket")
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
}

void addRunFlags(CLI::App& app, LatencyOptions& options) {
    app.add_flag("--probe-get", options.probeGet,
                 "two more passes of Get that show what it waits for: with its line of "
                 "the hash table prefetched, and of one key repeatedly");
    app.add_flag("--slices", options.slices, "run nothing, but answer a conductor on stdin");
    app.add_option("--drain-seconds", options.drainSeconds,
                   "how long to wait for the client at the end")
            ->capture_default_str();
    app.add_option("--data-dir", options.dataDir,
                   "persistent: an empty directory to use (default: a temporary one)");
}

}  // namespace

std::optional<LatencyOptions> parseLatencyOptions(int argc, char** argv, int& exitCode) {
    LatencyOptions options;
    CLI::App app(
            "Latency of Add, Get, Replace and Delete inside the process, each timed alone. "
            "JSON on stdout, a table on stderr.");
    addDocumentFlags(app, options);
    addClientFlags(app, options);
    addSizeFlags(app, options);
    addRunFlags(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        exitCode = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
    if (const std::string wrong = contradiction(options); !wrong.empty()) {
        fprintf(stderr, "%s\n", wrong.c_str());
        exitCode = 2;
        return std::nullopt;
    }
    return options;
}

}  // namespace kv::bench
