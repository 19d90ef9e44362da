#include <CLI/CLI.hpp>

#include "load/generators/append.h"
#include "load/generators/append_document.h"

namespace kv::load {

int parseAppend(int argc, const char* const* argv, AppendOptions& o) {
    CLI::App app(
            "Loads documents and lets them grow field by field, to fragment the server's memory; "
            "prints JSON.",
            "append");
    addConnectionFlags(app, o.connection);
    addGroupFlags(app, o.group);
    app.add_option("--slice-ops", o.sliceOps,
                   "read-modify-writes of a variant in each round, at most: every pass is cut into "
                   "equal slices")
            ->capture_default_str()
            ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40U))
            ->check(notNegative());
    app.add_option("--items", o.items, "number of documents")
            ->capture_default_str()
            ->check(CLI::Range(std::uint64_t{1}, kMaxAppendId))
            ->check(notNegative());
    app.add_option("--rounds", o.rounds, "rounds of three passes")
            ->capture_default_str()
            ->check(CLI::Range(0, 10000));
    app.add_option("--seed", o.seed)->capture_default_str()->check(notNegative());
    app.add_option("--in-flight", o.inFlight, "requests unanswered, over all threads")
            ->capture_default_str()
            ->check(CLI::Range(1, 1000000));
    app.add_option("--threads", o.threads, "each has one connection and its share of the documents")
            ->capture_default_str()
            ->check(CLI::Range(1, 1024));
    app.add_option("--vbuckets", o.vbuckets, "size of the vBucket map (0: ask the server)")
            ->check(CLI::Range(0, 65536));
    app.add_option("--fields-min", o.fieldsMin)->capture_default_str()->check(CLI::Range(1, 30000));
    app.add_option("--fields-max", o.fieldsMax)->capture_default_str()->check(CLI::Range(1, 30000));
    app.add_flag("--progress", o.progress, "a line a second on stderr");
    return parseFlags(app, argc, argv, [&] {
        finishGroupFlags(app, "--slice-ops", o.connection, o.group);
        if (o.fieldsMin > o.fieldsMax) {
            throw CLI::ValidationError("--fields-min is larger than --fields-max");
        }
        if (o.inFlight < o.threads) {
            throw CLI::ValidationError("--in-flight is smaller than --threads");
        }
    });
}

}  // namespace kv::load
