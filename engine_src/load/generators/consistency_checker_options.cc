#include <CLI/CLI.hpp>

#include "load/generators/consistency_checker.h"
#include "load/generators/mixed_options.h"

namespace kv::load {

namespace {

// A batch is made in memory before it is sent.
constexpr std::uint64_t kMaxBatchBytes = 256U << 20U;

void check(const ConsistencyCheckerOptions& o) {
    require(!o.connection.session.plain, "--plain: plain memcached has no map to follow");
    require(std::uint64_t{o.batch} * o.maxSize <= kMaxBatchBytes,
            "--batch-size times --max-size is more than 256 MiB");
    require(std::uint64_t{o.threads} * o.connections <= o.items,
            "--num-items: each connection of each thread needs a key of its own");
}

}  // namespace

int parseConsistencyChecker(int argc, const char* const* argv, ConsistencyCheckerOptions& o) {
    CLI::App app(
            "Loads a cluster while it changes: follows its map, sends again what was refused or "
            "broken off, and finds out which acknowledged writes are gone; prints JSON.",
            "consistency_checker");
    app.footer(
            "Reads all keys, loads them until --duration is over or SIGTERM comes, reads all of "
            "them again. The documents must be there: pillowfight --populate-only stores them.\n\n"
            "Example:\n"
            "  pillowfight --num-items 10000 --populate-only && \\\n"
            "  consistency_checker --num-items 10000 --set-pct 50 --duration 10");
    addConnectionFlags(app, o.connection);
    const MixedFlags mixed{.items = o.items,
                           .startAt = o.startAt,
                           .threads = o.threads,
                           .connections = o.connections,
                           .batch = o.batch,
                           .setPercent = o.setPercent,
                           .minSize = o.minSize,
                           .maxSize = o.maxSize,
                           .seed = o.seed,
                           .vbuckets = o.vbuckets,
                           .duration = o.duration,
                           .ramp = o.ramp,
                           .barrier = o.barrier};
    addMixedFlags(app, mixed, "for each thread, to each server",
                  "seconds of the mixed phase (without: until SIGTERM)");
    app.add_option("--begun", o.begun,
                   "file that is written when the mixed phase begins: the time then, in "
                   "nanoseconds since 1970");
    return parseFlags(app, argc, argv, [&] {
        finishConnectionFlags(o.connection, secretOf(o.connection.session));
        finishMixedFlags(mixed);
        check(o);
    });
}

}  // namespace kv::load
