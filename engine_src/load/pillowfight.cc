#include "load/pillowfight.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "load/arms.h"
#include "load/barrier.h"
#include "load/batch_traffic.h"
#include "load/fill_in_turns.h"
#include "load/populate_plan.h"
#include "load/report_json.h"

namespace kv::load {

namespace {

using Json = nlohmann::ordered_json;

/// What a thread saw of one arm in the mixed phase.
struct ArmResult {
    Recorder recorder{0, 0};
    std::optional<bool> measuring;  // what the recorder holds: warm-up or measured; empty: nothing
    Tally warmup;
    std::uint64_t overdue = 0;

    /// A turn begins: warm-up and what is measured are kept apart.
    void begin(const Turns::Turn& turn, Nanos ramp) {
        if (measuring != turn.measured) {
            const auto before = recorder.restart(turn.begin, ramp);
            if (measuring) {
                warmup = before;
            }
            measuring = turn.measured;
        }
    }
    /// The load has ended.
    void finish() {
        if (measuring == false) {
            warmup = recorder.restart(recorder.start(), 0);
        }
    }
    void merge(const ArmResult& other) {
        recorder.merge(other.recorder);
        warmup.add(other.warmup);
        overdue += other.overdue;
    }
};

/// What a thread leaves behind. Written by that thread, read when all have ended.
struct ThreadResult {
    // By arm; empty if the phase was not reached.
    std::vector<Recorder> populate;
    std::vector<ArmResult> access;
};

/// One thread's load of one arm in one phase.
template <class Plan>
struct Load {
    Plan plan;
    BatchTraffic<Plan> traffic;

    Load(Plan given, Recorder& recorder, std::uint32_t window, const ClusterMap& routes)
        : plan(std::move(given)), traffic(plan, recorder, window, routes) {}
};

class Pillowfight {
  public:
    explicit Pillowfight(const PillowfightOptions& options)
        : options_(options),
          crew_(options.threads),
          arms_(options.ensemble, options.connection),
          turns_(crew_, turnOptions(options, arms_), arms_.openClock()),
          keys_(options.keyPrefix, KeyCodec::kMaxDigits),
          values_(options.json ? ValueSource::Kind::kJson : ValueSource::Kind::kBinary,
                  options.minSize, options.maxSize, options.access.seed),
          results_(options.threads) {}

    CrewResult run(Json& report) {
        auto result = crew_.run([this](std::size_t thread) { work(thread); }, [this] { tick(); });
        describe(report, result);
        return result;
    }

  private:
    static TurnOptions turnOptions(const PillowfightOptions& options, const Arms& arms) {
        // Durations are per arm. A single server's ramp is within its only turn.
        const auto all = static_cast<double>(arms.size());
        return {.arms = arms.size(),
                .seed = options.ensemble.roundSeed,
                .warmup = arms.ensemble() ? nanos(all * options.ramp) : 0,
                .end = options.duration > 0 ? nanos(all * options.duration) : kNever};
    }

    LaneRange lanes(std::size_t thread) const {
        return {thread * options_.connections, options_.connections,
                std::size_t{options_.threads} * options_.connections};
    }

    void work(std::size_t thread) {
        std::vector<std::unique_ptr<Connected>> servers;
        for (std::size_t arm = 0; arm < arms_.size() && !crew_.stop(); ++arm) {
            servers.push_back(arms_.with(arm, [&] { return connect(arms_[arm].session); }));
            crew_.inStep();  // slots fill one after the other
        }
        if (!options_.noPopulation && !crew_.stop()) {
            populate(thread, servers);
        }
        crew_.inStep();
        if (options_.barrier && thread == 0 && !crew_.stop()) {
            waitAtBarrier(*options_.barrier, options_.connection.session.timeout, crew_.stop());
        }
        crew_.inStep();
        if (!options_.populateOnly && !crew_.stop()) {
            access(thread, servers);
        }
    }

    std::unique_ptr<Connected> connect(SessionOptions sessionOptions) {
        RequestWriter::Shape shape;
        shape.expiry = options_.expiry;
        // The common flags by which the SDKs know what a document is.
        shape.flags = options_.json ? 0x02000000U : 0x03000002U;
        sessionOptions.json = options_.json;
        auto opened = openSessions(sessionOptions, options_.vbuckets, options_.connections);
        shape.vbuckets = opened.vbuckets;
        if (opened.sessions.front().jsonAcknowledged) {
            shape.datatype = protocol::Datatype::kJson;
        }
        return std::make_unique<Connected>(RequestWriter(keys_, shape), std::move(opened),
                                           crew_.stop(), nanos(options_.connection.opTimeout));
    }

    void populate(std::size_t thread, std::vector<std::unique_ptr<Connected>>& servers) {
        const auto& a = options_.access;
        auto& recorders = results_[thread].populate;
        recorders.resize(arms_.size(), Recorder(nowNanos(), 0, &populated_));
        std::vector<std::unique_ptr<Load<PopulatePlan>>> loads;
        for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
            loads.push_back(std::make_unique<Load<PopulatePlan>>(
                    PopulatePlan(a.items, a.startAt, a.seed, a.batch, options_.effectiveWindow(),
                                 lanes(thread), servers[arm]->requests, values_),
                    recorders[arm], options_.effectiveWindow(), servers[arm]->routes));
        }
        const auto fill = [&](std::size_t arm) {
            auto& load = *loads[arm];
            if (arms_.size() > 1) {
                load.plan.begin(std::max(1U, kFillRequests / a.batch));
            }
            arms_.with(arm, [&] { servers[arm]->drive(load.traffic, recorders[arm]); });
            return !load.plan.exhausted();
        };
        fillInTurns(arms_.size(), options_.ensemble.roundSeed, crew_.stop(), fill);
    }

    void access(std::size_t thread, std::vector<std::unique_ptr<Connected>>& servers) {
        auto& results = results_[thread].access;
        results.resize(arms_.size());
        std::vector<std::unique_ptr<Load<AccessPlan>>> loads;
        for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
            results[arm].recorder = Recorder(0, 0, &accessed_);
            loads.push_back(std::make_unique<Load<AccessPlan>>(
                    AccessPlan(options_.access, lanes(thread), servers[arm]->requests, values_),
                    results[arm].recorder, options_.effectiveWindow(), servers[arm]->routes));
        }
        Turns::Done done;
        while (const auto turn = turns_.next(thread, done)) {
            auto& load = *loads[turn->arm];
            auto& result = results[turn->arm];
            result.begin(*turn, arms_.ensemble() ? 0 : nanos(options_.ramp));
            load.plan.begin(turn->begin, turnEnd(turn->begin));
            const auto before = result.recorder.total().ops();
            try {
                arms_.with(turn->arm,
                           [&] { servers[turn->arm]->drive(load.traffic, result.recorder); });
            } catch (...) {
                turns_.abandon(thread);
                throw;
            }
            done = {result.recorder.total().ops() - before, load.plan.exhausted()};
        }
        for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
            results[arm].finish();
            results[arm].overdue = loads[arm]->plan.overdue(nowNanos());
        }
    }

    Nanos turnEnd(Nanos begin) const {
        const double length = arms_.ensemble() ? options_.slice : options_.duration;
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
        Json json = arms_.ensemble() ? Json{{"slice", o.slice},
                                            {"round_seed", o.ensemble.roundSeed},
                                            {"arms", arms_.size()}}
                                     : Json{{"host", o.connection.session.host},
                                            {"port", o.connection.session.port}};
        json.update({{"bucket", o.connection.session.bucket},
                     {"plain", o.connection.session.plain},
                     {"authenticated", !arms_[0].session.user.empty()},
                     {"num_items", a.items},
                     {"num_threads", o.threads},
                     {"connections", o.connections},
                     {"batch_size", a.batch},
                     {"window", o.effectiveWindow()},
                     {"set_pct", a.setPercent},
                     {"min_size", o.minSize},
                     {"max_size", o.maxSize},
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

    /// What all threads stored on an arm; null if the phase was not reached.
    Json populateJson(std::size_t arm) const {
        std::optional<Recorder> sum;
        for (const auto& thread : results_) {
            if (!thread.populate.empty()) {
                mergeInto(sum, thread.populate[arm]);
            }
        }
        return sum ? Json{{"ops", sum->total().ops()},
                          {"seconds", seconds(sum->elapsed())},
                          {"errors", toJson(sum->total().errors)}}
                   : Json(nullptr);
    }

    /// The threads' results of an arm, merged; nothing if the mixed phase was not reached.
    std::optional<ArmResult> merged(std::size_t arm) const {
        std::optional<ArmResult> sum;
        for (const auto& thread : results_) {
            if (!thread.access.empty()) {
                mergeInto(sum, thread.access[arm]);
            }
        }
        return sum;
    }

    void describe(Json& report, const CrewResult& result) const {
        report = {{"tool", "pillowfight"}, {"schema", 1}, {"options", optionsJson()}};
        arms_.ensemble() ? describeEnsemble(report) : describeServer(report);
        addEnding(report, result);
    }

    void describeServer(Json& report) const {
        const auto access = merged(0);
        report["populate"] = populateJson(0);
        report["access"] = access ? accessJson(*access, std::nullopt) : Json(nullptr);
        report["client"] = clientJson(wholeCpu(turns_, options_.threads),
                                      access ? seconds(access->recorder.elapsed()) : 0,
                                      access ? access->recorder.total().ops() : 0);
    }

    void describeEnsemble(Json& report) const {
        std::vector<ArmReport> parts;
        for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
            const auto access = merged(arm);
            Json part{{"tool", "pillowfight"}, {"schema", 1}, {"populate", populateJson(arm)}};
            part["access"] = access ? accessJson(*access, turns_.log(arm).inTurn()) : Json(nullptr);
            part["client"] = clientJson(armCpu(turns_, options_.threads, arm),
                                        seconds(turns_.log(arm).inTurn()),
                                        access ? access->recorder.total().ops() : 0);
            parts.push_back({std::move(part), access ? access->warmup : Tally{}});
        }
        addEnsemble(report, arms_, turns_, options_.threads, {{"slice_s", options_.slice}},
                    options_.ensemble.roundSeed, std::move(parts));
    }

    Json accessJson(const ArmResult& access, std::optional<Nanos> inTurn) const {
        Json json = phaseJson(access.recorder, inTurn);
        if (options_.access.rate > 0) {
            json["overdue"] = access.overdue;
        }
        return json;
    }

    const PillowfightOptions& options_;
    Crew crew_;
    Arms arms_;
    Turns turns_;
    KeyCodec keys_;
    ValueSource values_;
    std::vector<ThreadResult> results_;
    std::atomic<std::uint64_t> populated_{0};
    std::atomic<std::uint64_t> accessed_{0};
};

}  // namespace

CrewResult runPillowfight(const PillowfightOptions& options, Json& report) {
    return Pillowfight(options).run(report);
}

}  // namespace kv::load
