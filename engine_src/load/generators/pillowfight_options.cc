#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>

#include "load/generators/mixed_options.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/key_codec.h"

namespace kv::load {

namespace {

/// Returns true if a server may be addressed in a protocol of lines.
bool speaksLines(const PillowfightOptions& o) {
    const auto inLines = [](const SessionOptions& session) {
        return hasLines(session.protocol) || session.protocol == Protocol::kAuto;
    };
    return inLines(o.connection.session) ||
           std::any_of(o.group.variants.begin(), o.group.variants.end(),
                       [&](const Variant& variant) { return inLines(variant.session); });
}

void check(PillowfightOptions& o, const MixedFlags& mixed, const CLI::App& app) {
    finishGroupFlags(app, "--slice", o.connection, o.group);
    // As in cbc-pillowfight, one size alone means both if the other's default contradicts it.
    if (app.count("--max-size") != 0 && app.count("--min-size") == 0) {
        o.minSize = std::min(o.minSize, o.maxSize);
    }
    if (app.count("--min-size") != 0 && app.count("--max-size") == 0) {
        o.maxSize = std::max(o.minSize, o.maxSize);
    }
    finishMixedFlags(mixed);
    require(!o.json || o.minSize >= ValueSource::kJsonFrame,
            "--json needs --min-size of at least 11");
    require(!o.remove || o.populateOnly, "--delete needs --populate-only");
    require(!(o.populateOnly && o.noPopulation),
            "--populate-only and --no-population exclude each other");
    require(o.keyPrefix.size() <= 230,
            "--key-prefix is longer than 230 bytes (keys have at most 250)");
    require(o.maxKeySize == 0 || (o.minKeySize >= o.keyPrefix.size() + KeyCodec::kMaxDigits &&
                                  o.minKeySize <= o.maxKeySize),
            "--min-key-size is shorter than the key prefix and 20 digits, or longer than "
            "--max-key-size");
    require(!speaksLines(o) || std::all_of(o.keyPrefix.begin(), o.keyPrefix.end(),
                                           [](char c) { return c > ' ' && c <= '~'; }),
            "--key-prefix: keys of the text and meta protocols are printable ASCII without blanks");
    require(std::uint64_t{o.access.batch} * o.effectiveWindow() <= (1U << 30U),
            "--batch-size times --window is too large");
}

/// What the parser stores in another form.
struct FlagTexts {
    std::string sizes = "uniform";
    std::string semantics = "random";
    long long cycles = -1;
};

void addPopulateFlags(CLI::App& app, PillowfightOptions& o) {
    app.add_flag("-n,--no-population", o.noPopulation, "skip the populate phase");
    app.add_flag("--populate-only", o.populateOnly, "end after the populate phase");
    app.add_option("--share", o.share,
                   "percent of the keys that the populate phase stores or deletes; the random seed "
                   "draws which")
            ->capture_default_str()
            ->check(CLI::Range(0.0, 100.0));
    app.add_option("--draw", o.draw,
                   "number of the draw of --share: each draws other keys (0 is the first)")
            ->check(notNegative());
    app.add_flag("--delete", o.remove, "the populate phase deletes its keys");
}

void addDocumentFlags(CLI::App& app, PillowfightOptions& o, FlagTexts& texts) {
    app.add_option("-p,--key-prefix", o.keyPrefix);
    auto* minKey = app.add_option("--min-key-size", o.minKeySize,
                                  "shortest key; lengths are drawn (default: the key prefix and 20 "
                                  "digits)")
                           ->check(CLI::Range(1, 250));
    auto* maxKey = app.add_option("--max-key-size", o.maxKeySize, "longest key")
                           ->check(CLI::Range(1, 250));
    minKey->needs(maxKey);
    maxKey->needs(minKey);
    app.add_option("--key-draws", o.keyDraws,
                   "number of draws of --share after which keys have their lengths: a key that was "
                   "drawn has a new one")
            ->check(notNegative());
    app.add_option("--sizes", texts.sizes,
                   "how sizes lie between the smallest and the largest; lognormal: these are three "
                   "standard deviations from the middle")
            ->capture_default_str()
            ->check(CLI::IsMember({"uniform", "lognormal"}));
    app.add_option("-e,--expiry", o.expiry, "seconds until documents expire")->check(notNegative());
    app.add_flag("--json", o.json, "documents are JSON objects");
}

void addAccessFlags(CLI::App& app, PillowfightOptions& o, FlagTexts& texts) {
    auto& a = o.access;
    app.add_option("--window", o.window,
                   "batches in flight on a connection (1; 64 with --rate-limit)")
            ->check(CLI::Range(1, 65536));
    app.add_option("-c,--num-cycles", texts.cycles,
                   "batches of each thread in the mixed phase (-1: no limit)")
            ->capture_default_str()
            ->check(CLI::Range(-1LL, std::numeric_limits<long long>::max()));
    app.add_option("--num-ops", a.maxOps, "operations of the mixed phase over all threads")
            ->check(positive());
    app.add_flag("--sequential", a.sequential, "access keys in order");
    app.add_option("--rate-limit", a.rate,
                   "operations a second over all threads; latency is then from the "
                   "time each batch was due")
            ->check(CLI::PositiveNumber);
    app.add_option("--key-semantics", texts.semantics,
                   "key-mod: a key is SET if its number mod 100 < set-pct; random: a coin for each "
                   "operation")
            ->capture_default_str()
            ->check(CLI::IsMember({"key-mod", "random"}));
    app.add_flag("--shared-sequence", a.sharedSequence,
                 "all connections draw the same keys, as cbc-pillowfight's threads");
    app.add_option("--verify-every", o.verifyEvery,
                   "compare every n-th value that a connection gets with what this load writes (0: "
                   "none)")
            ->capture_default_str()
            ->check(notNegative());
}

}  // namespace

int parsePillowfight(int argc, const char* const* argv, PillowfightOptions& o) {
    CLI::App app("Loads a key-value server with pipelined batches of GET and SET; prints JSON.",
                 "pillowfight");
    o.connection.anyProtocol = true;
    addConnectionFlags(app, o.connection);
    addGroupFlags(app, o.group);
    app.add_option("--slice", o.slice,
                   "seconds that a variant is loaded in each round; --duration and --ramp (whole "
                   "rounds that are left out of all figures) are then per variant")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
    const MixedFlags mixed{.items = o.access.items,
                           .startAt = o.access.startAt,
                           .threads = o.threads,
                           .connections = o.connections,
                           .batch = o.access.batch,
                           .setPercent = o.access.setPercent,
                           .minSize = o.minSize,
                           .maxSize = o.maxSize,
                           .seed = o.access.seed,
                           .vbuckets = o.vbuckets,
                           .duration = o.duration,
                           .ramp = o.ramp,
                           .barrier = o.barrier};
    addMixedFlags(app, mixed, "for each thread", "seconds of the mixed phase, ramp included");
    FlagTexts texts;
    addPopulateFlags(app, o);
    addDocumentFlags(app, o, texts);
    addAccessFlags(app, o, texts);
    app.add_flag("--progress", o.progress, "a line a second on stderr");
    return parseFlags(app, argc, argv, [&] {
        check(o, mixed, app);
        o.lognormal = texts.sizes == "lognormal";
        o.access.semantics =
                texts.semantics == "key-mod" ? KeySemantics::kKeyMod : KeySemantics::kRandom;
        if (texts.cycles >= 0) {
            o.access.maxCycles = static_cast<std::uint64_t>(texts.cycles);
        }
    });
}

}  // namespace kv::load
