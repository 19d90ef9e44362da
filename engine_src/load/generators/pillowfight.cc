#include "load/generators/pillowfight.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "load/core/barrier.h"
#include "load/core/round_order.h"
#include "load/generators/batch_traffic.h"
#include "load/generators/drawn_keys.h"
#include "load/generators/populate_plan.h"
#include "load/generators/report_json.h"
#include "load/generators/variants.h"
#include "load/protocols/binary_codec.h"
#include "load/protocols/handshake.h"
#include "load/protocols/meta_codec.h"
#include "load/protocols/resp_codec.h"
#include "load/protocols/text_codec.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

namespace {

/// The measurements of a thread for one variant in the mixed phase.
struct VariantResult {
    Recorder recorder{0, 0};
    std::optional<bool> measuring;  // content of the recorder: warm-up or measured; empty: nothing
    OpCounts warmup;
    std::uint64_t overdue = 0;

    /// Begins a slice: warm-up and measured rounds are recorded separately.
    void begin(const SliceSchedule::Slice& slice, Nanos ramp) {
        if (measuring != slice.measured) {
            const auto before = recorder.restart(slice.begin, ramp);
            if (measuring) {
                warmup = before;
            }
            measuring = slice.measured;
        }
    }
    /// Ends the load.
    void finish() {
        if (measuring == false) {
            warmup = recorder.restart(recorder.start(), 0);
        }
    }
    void merge(const VariantResult& other) {
        recorder.merge(other.recorder);
        warmup.add(other.warmup);
        overdue += other.overdue;
    }
};

/// The results of a thread. Written by that thread, read when all have ended.
struct ThreadResult {
    // By variant; empty if the phase was not reached.
    std::vector<Recorder> populate;
    std::vector<VariantResult> access;
};

/// Keys of one length, which is the rule, cost nothing for those of several.
template <class... Codecs>
using ForAnyKeys = std::variant<Codecs..., DrawnKeysCodec<Codecs>...>;
using AnyCodec = ForAnyKeys<BinaryCodec, TextCodec, MetaCodec, RespCodec>;

/// One thread's connections to one variant, and how requests to it are written.
struct Target {
    AnyCodec codec;
    Connected link;

    Target(AnyCodec given, OpenedServer opened, const std::atomic<bool>& stop, Nanos stallTimeout)
        : codec(std::move(given)),
          link(std::move(opened.sockets), std::move(opened.map), stop, stallTimeout) {}
};

/// One thread's load on one variant in one phase.
template <class Plan>
struct Load {
    Plan plan;
    std::unique_ptr<Traffic> traffic;

    Load(Plan given, Recorder& recorder, const Target& target, const ValueSource& values,
         BatchShape shape)
        : plan(std::move(given)),
          traffic(std::visit(
                  [&](const auto& codec) -> std::unique_ptr<Traffic> {
                      using Kind = BatchTraffic<Plan, std::decay_t<decltype(codec)>>;
                      return std::make_unique<Kind>(plan, recorder, codec, values,
                                                    target.link.routes, shape);
                  },
                  target.codec)) {}
};

/// The pool of bodies is the same for all seeds of the load, so that any process can verify a body
/// that a process like it has written.
constexpr std::uint64_t kPoolSeed = 0x70696c6c6f77;

class Pillowfight {
  public:
    explicit Pillowfight(const PillowfightOptions& options)
        : options_(options),
          team_(options.threads),
          variants_(options.group, options.connection),
          schedule_(team_, scheduleOptions(options, variants_), variants_.openClock()),
          keys_(options.keyPrefix, options.minKeySize, options.maxKeySize,
                {options.access.seed, options.share}, options.keyDraws),
          values_(options.json ? ValueSource::Kind::kJson : ValueSource::Kind::kBinary,
                  options.minSize, options.maxSize, kPoolSeed,
                  options.lognormal ? ValueSource::Sizes::kLognormal
                                    : ValueSource::Sizes::kUniform),
          results_(options.threads) {}

    RunResult run(Json& report) {
        auto result = team_.run([this](std::size_t thread) { work(thread); }, [this] { tick(); });
        describe(report, result);
        return result;
    }

  private:
    static ScheduleOptions scheduleOptions(const PillowfightOptions& options,
                                           const Variants& variants) {
        // Durations are per variant. A single server's ramp is within its only slice.
        const auto all = static_cast<double>(variants.size());
        return {.variants = variants.size(),
                .seed = options.group.roundSeed,
                .warmup = variants.group() ? nanos(all * options.ramp) : 0,
                .end = options.duration > 0 ? nanos(all * options.duration) : kNever,
                .idle = nanos(options.group.idle)};
    }

    LaneRange lanes(std::size_t thread) const {
        return {thread * options_.connections, options_.connections,
                std::size_t{options_.threads} * options_.connections};
    }

    void work(std::size_t thread) {
        if (thread == 0) {
            variants_.detectProtocols(team_.stop());
        }
        team_.inStep();
        std::vector<std::unique_ptr<Target>> servers;
        for (std::size_t variant = 0; variant < variants_.size() && !team_.stop(); ++variant) {
            servers.push_back(
                    variants_.with(variant, [&] { return connect(variants_[variant].session); }));
            team_.inStep();  // slots are filled one after the other
        }
        if (!options_.noPopulation && !team_.stop()) {
            populate(thread, servers);
        }
        team_.inStep();
        if (options_.barrier && thread == 0 && !team_.stop()) {
            waitAtBarrier(*options_.barrier, options_.connection.session.timeout, team_.stop());
        }
        team_.inStep();
        if (!options_.populateOnly && !team_.stop()) {
            access(thread, servers);
        }
    }

    std::unique_ptr<Target> connect(SessionOptions sessionOptions) {
        sessionOptions.json = options_.json;
        auto opened = openServer(sessionOptions, options_.vbuckets, options_.connections);
        auto codec = codecFor(sessionOptions.protocol, opened);
        return std::make_unique<Target>(std::move(codec), std::move(opened), team_.stop(),
                                        nanos(options_.connection.opTimeout));
    }

    AnyCodec codecFor(Protocol protocol, const OpenedServer& opened) const {
        // The common flags by which SDKs recognise the type of a document.
        const DocumentShape shape{.expiry = options_.expiry,
                                  .flags = options_.json ? 0x02000000U : 0x03000002U};
        const auto made = [&](auto make) -> AnyCodec {
            const auto& shapes = keys_.shapes();
            if (shapes.size() == 1) {
                return make(shapes.front());
            }
            return DrawnKeysCodec<decltype(make(shapes.front()))>(keys_, make);
        };
        switch (protocol) {
            case Protocol::kText:
                return made([&](const KeyCodec& key) { return TextCodec(key, shape); });
            case Protocol::kMeta:
                return made([&](const KeyCodec& key) { return MetaCodec(key, shape); });
            case Protocol::kResp2:
            case Protocol::kResp3:
                return made([&](const KeyCodec& key) { return RespCodec(key, shape); });
            default:
                return made([&](const KeyCodec& key) {
                    return BinaryCodec(RequestWriter(
                            key, {.vbuckets = opened.vbuckets,
                                  .expiry = shape.expiry,
                                  .flags = shape.flags,
                                  .datatype = opened.jsonAcknowledged ? protocol::Datatype::kJson
                                                                      : protocol::Datatype::kRaw}));
                });
        }
    }

    BatchShape shape() const {
        return {options_.access.batch, options_.effectiveWindow(), options_.verifyEvery};
    }

    void populate(std::size_t thread, std::vector<std::unique_ptr<Target>>& servers) {
        const auto& a = options_.access;
        auto& recorders = results_[thread].populate;
        recorders.resize(variants_.size(), Recorder(nowNanos(), 0, &populated_));
        std::vector<std::unique_ptr<Load<PopulatePlan>>> loads;
        for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
            loads.push_back(std::make_unique<Load<PopulatePlan>>(
                    PopulatePlan({.items = a.items,
                                  .startAt = a.startAt,
                                  .seed = a.seed,
                                  .batch = a.batch,
                                  .window = options_.effectiveWindow(),
                                  .share = options_.share,
                                  .draw = options_.draw,
                                  .remove = options_.remove},
                                 lanes(thread), values_),
                    recorders[variant], *servers[variant], values_, shape()));
        }
        const auto fill = [&](std::size_t variant) {
            auto& load = *loads[variant];
            if (variants_.size() > 1) {
                load.plan.begin(std::max(1U, kFillRequests / a.batch));
            }
            variants_.with(variant, [&] {
                servers[variant]->link.drive(*load.traffic, recorders[variant]);
            });
            return !load.plan.exhausted();
        };
        fillInRotation(variants_.size(), options_.group.roundSeed, team_.stop(), fill);
    }

    void access(std::size_t thread, std::vector<std::unique_ptr<Target>>& servers) {
        auto& results = results_[thread].access;
        results.resize(variants_.size());
        std::vector<std::unique_ptr<Load<AccessPlan>>> loads;
        for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
            results[variant].recorder = Recorder(0, 0, &accessed_);
            loads.push_back(std::make_unique<Load<AccessPlan>>(
                    AccessPlan(options_.access, lanes(thread), values_), results[variant].recorder,
                    *servers[variant], values_, shape()));
        }
        SliceSchedule::Done done;
        while (const auto slice = schedule_.next(thread, done)) {
            auto& load = *loads[slice->variant];
            auto& result = results[slice->variant];
            result.begin(*slice, variants_.group() ? 0 : nanos(options_.ramp));
            load.plan.begin(slice->begin, sliceEnd(slice->begin));
            const auto before = result.recorder.total().ops();
            try {
                variants_.with(slice->variant, [&] {
                    servers[slice->variant]->link.drive(*load.traffic, result.recorder);
                });
                // With a rate, the time after the last answer belongs to the load as well.
                result.recorder.finish(nowNanos());
            } catch (...) {
                schedule_.abandon(thread);
                throw;
            }
            done = {result.recorder.total().ops() - before, load.plan.exhausted()};
        }
        for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
            results[variant].finish();
            results[variant].overdue = loads[variant]->plan.overdue(nowNanos());
        }
    }

    Nanos sliceEnd(Nanos begin) const {
        const double length = variants_.group() ? options_.slice : options_.duration;
        return length > 0 ? begin + nanos(length) : kNever;
    }

    void tick() {
        if (options_.progress) {
            std::fprintf(
                    stderr, "pillowfight: populated %llu, mixed %llu\n",
                    static_cast<unsigned long long>(populated_.load(std::memory_order_relaxed)),
                    static_cast<unsigned long long>(accessed_.load(std::memory_order_relaxed)));
        }
    }

    Json optionsJson() const {
        const auto& o = options_;
        const auto& a = o.access;
        const auto limit = [](std::uint64_t n) {
            return n == ~std::uint64_t{0} ? Json(nullptr) : Json(n);
        };
        Json json = variants_.group()
                            ? Json{{"slice", o.slice},
                                   {"round_seed", o.group.roundSeed},
                                   {"variants", variants_.size()}}
                            : Json{{"host", o.connection.session.host},
                                   {"port", o.connection.session.port},
                                   {"unix", o.connection.session.unixPath},
                                   {"protocol", toString(variants_[0].session.protocol)},
                                   {"protocol_asked", toString(variants_[0].protocolAsked)}};
        json.update({{"bucket", o.connection.session.bucket},
                     {"plain", o.connection.session.plain},
                     {"authenticated", !variants_[0].session.user.empty()},
                     {"verify_every", o.verifyEvery},
                     {"num_items", a.items},
                     {"num_threads", o.threads},
                     {"connections", o.connections},
                     {"batch_size", a.batch},
                     {"window", o.effectiveWindow()},
                     {"set_pct", a.setPercent},
                     {"min_size", o.minSize},
                     {"max_size", o.maxSize},
                     {"sizes", o.lognormal ? "lognormal" : "uniform"},
                     {"share", o.share},
                     {"draw", o.draw},
                     {"delete", o.remove},
                     {"min_key_size", keys_.shapes().front().size()},
                     {"max_key_size", keys_.shapes().back().size()},
                     {"key_draws", o.keyDraws},
                     {"no_population", o.noPopulation},
                     {"populate_only", o.populateOnly},
                     {"num_cycles", limit(a.maxCycles)},
                     {"num_ops", limit(a.maxOps)},
                     {"duration", o.duration},
                     {"ramp", o.ramp},
                     {"sequential", a.sequential},
                     {"start_at", a.startAt},
                     {"key_prefix", o.keyPrefix},
                     {"random_seed", a.seed},
                     {"rate_limit", a.rate},
                     {"expiry", o.expiry},
                     {"json", o.json},
                     {"key_semantics", a.semantics == KeySemantics::kKeyMod ? "key-mod" : "random"},
                     {"shared_sequence", a.sharedSequence},
                     {"vbuckets", o.vbuckets}});
        return json;
    }

    /// Returns what all threads stored on a variant; null if the phase was not reached.
    Json populateJson(std::size_t variant) const {
        std::optional<Recorder> sum;
        for (const auto& thread : results_) {
            if (!thread.populate.empty()) {
                mergeInto(sum, thread.populate[variant]);
            }
        }
        if (!sum) {
            return nullptr;
        }
        Json phase{{"ops", sum->total().ops()},
                   {"seconds", seconds(sum->elapsed())},
                   {"errors", toJson(sum->total().errors)}};
        addRefusal(phase, *sum);
        return phase;
    }

    /// Returns the merged results of the threads for a variant; nothing if the mixed phase was not
    /// reached.
    std::optional<VariantResult> merged(std::size_t variant) const {
        std::optional<VariantResult> sum;
        for (const auto& thread : results_) {
            if (!thread.access.empty()) {
                mergeInto(sum, thread.access[variant]);
            }
        }
        return sum;
    }

    void describe(Json& report, const RunResult& result) const {
        report = {{"tool", "pillowfight"}, {"schema", 1}, {"options", optionsJson()}};
        variants_.group() ? describeGroup(report) : describeServer(report);
        addEnding(report, result);
    }

    void describeServer(Json& report) const {
        const auto access = merged(0);
        report["populate"] = populateJson(0);
        report["access"] = access ? accessJson(*access, std::nullopt) : Json(nullptr);
        report["client"] = clientJson(wholeCpu(schedule_, options_.threads),
                                      access ? seconds(access->recorder.elapsed()) : 0,
                                      access ? access->recorder.total().ops() : 0);
    }

    void describeGroup(Json& report) const {
        std::vector<VariantReport> parts;
        for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
            const auto access = merged(variant);
            Json part{{"tool", "pillowfight"}, {"schema", 1}, {"populate", populateJson(variant)}};
            part["access"] = access ? accessJson(*access, schedule_.log(variant).sliceTime())
                                    : Json(nullptr);
            part["client"] = clientJson(variantCpu(schedule_, options_.threads, variant),
                                        seconds(schedule_.log(variant).sliceTime()),
                                        access ? access->recorder.total().ops() : 0);
            parts.push_back({std::move(part), access ? access->warmup : OpCounts{}});
        }
        addGroup(report, variants_, schedule_, options_.threads, {{"slice_s", options_.slice}},
                 options_.group.roundSeed, std::move(parts));
    }

    Json accessJson(const VariantResult& access, std::optional<Nanos> sliceTime) const {
        Json json = phaseJson(access.recorder, sliceTime);
        if (options_.access.rate > 0) {
            json["overdue"] = access.overdue;
        }
        return json;
    }

    const PillowfightOptions& options_;
    ThreadTeam team_;
    Variants variants_;
    SliceSchedule schedule_;
    DrawnKeys keys_;
    ValueSource values_;
    std::vector<ThreadResult> results_;
    std::atomic<std::uint64_t> populated_{0};
    std::atomic<std::uint64_t> accessed_{0};
};

}  // namespace

RunResult runPillowfight(const PillowfightOptions& options, Json& report) {
    return Pillowfight(options).run(report);
}

}  // namespace kv::load
