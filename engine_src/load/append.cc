#include "load/append.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "load/access_plan.h"
#include "load/append_traffic.h"
#include "load/arms.h"
#include "load/fill_in_turns.h"
#include "load/report_json.h"

namespace kv::load {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kSteps = 3;  // passes of a round: all, half, a quarter of the documents

/// Part of a pass that an arm does in one turn.
struct UpdateSlice {
    std::uint32_t pass = 0;
    std::uint64_t draws = 0;
};

/// All passes cut into nearly equal slices of at most `sliceOps` draws; 0: a pass is one slice.
std::vector<UpdateSlice> cutIntoSlices(std::uint64_t items, std::uint32_t passes,
                                       std::uint64_t sliceOps) {
    std::vector<UpdateSlice> slices;
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
        const auto draws = appendPass(items, pass / kSteps, pass % kSteps).draws;
        const auto parts = sliceOps == 0 ? std::uint64_t{draws != 0}
                                         : draws / sliceOps + (draws % sliceOps != 0 ? 1 : 0);
        for (std::uint64_t part = 0; part < parts; ++part) {
            slices.push_back(
                    {pass, partBegin(draws, part + 1, parts) - partBegin(draws, part, parts)});
        }
    }
    return slices;
}

/// What a thread did to one arm.
struct ArmResult {
    std::optional<Recorder> load;
    std::optional<Recorder> update;
    std::uint64_t loaded = 0;
    std::uint64_t updated = 0;

    void merge(const ArmResult& other) {
        for (const auto phase : {&ArmResult::load, &ArmResult::update}) {
            if (other.*phase) {
                mergeInto(this->*phase, *(other.*phase));
            }
        }
        loaded += other.loaded;
        updated += other.updated;
    }
};

/// Adds what a traffic finishes, also when it fails on the way.
class CountFinished {
  public:
    CountFinished(const AppendTraffic& traffic, std::uint64_t& sum)
        : traffic_(traffic), before_(traffic.finished()), sum_(sum) {}
    CountFinished(const CountFinished&) = delete;
    CountFinished& operator=(const CountFinished&) = delete;
    ~CountFinished() { sum_ += traffic_.finished() - before_; }

  private:
    const AppendTraffic& traffic_;
    std::uint64_t before_;
    std::uint64_t& sum_;
};

class Append {
  public:
    explicit Append(const AppendOptions& options)
        : options_(options),
          crew_(options.threads),
          arms_(options.ensemble, options.connection),
          turns_(crew_, {.arms = arms_.size(), .seed = options.ensemble.roundSeed},
                 arms_.openClock()),
          slices_(cutIntoSlices(options.items, options.rounds * kSteps,
                                arms_.ensemble() ? options.sliceOps : 0)),
          stores_(arms_.size(),
                  AppendStore(options.items, options.seed, options.fieldsMin, options.fieldsMax)),
          keys_("AB_", 12, "_0"),
          results_(options.threads, std::vector<ArmResult>(arms_.size())) {}

    CrewResult run(Json& report) {
        auto result = crew_.run([this](std::size_t thread) { work(thread); }, [this] { tick(); });
        describe(report, result);
        return result;
    }

  private:
    AppendShare share(std::size_t thread) const {
        // What does not divide evenly goes to the first threads: the sum is exact.
        const auto n = options_.inFlight / options_.threads +
                       (thread < options_.inFlight % options_.threads ? 1 : 0);
        return {thread, options_.threads, n};
    }

    void work(std::size_t thread) {
        std::vector<std::unique_ptr<Connected>> servers;
        for (std::size_t arm = 0; arm < arms_.size() && !crew_.stop(); ++arm) {
            servers.push_back(arms_.with(arm, [&] { return connect(arms_[arm].session); }));
            crew_.inStep();  // slots fill one after the other
        }
        if (!crew_.stop()) {
            load(thread, servers);
        }
        crew_.inStep();
        if (!crew_.stop()) {
            update(thread, servers);
        }
    }

    std::unique_ptr<Connected> connect(const SessionOptions& sessionOptions) {
        RequestWriter::Shape shape;
        shape.flags = 0x02000000U;  // JSON, for the SDKs
        auto opened = openSessions(sessionOptions, options_.vbuckets, 1);
        shape.vbuckets = opened.vbuckets;
        return std::make_unique<Connected>(
                RequestWriter(keys_, shape), std::move(opened), crew_.stop(),
                static_cast<Nanos>(options_.connection.opTimeout * static_cast<double>(kSecond)));
    }

    void load(std::size_t thread, std::vector<std::unique_ptr<Connected>>& servers) {
        auto& results = results_[thread];
        std::vector<std::unique_ptr<AppendLoad>> loads;
        for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
            auto& recorder = results[arm].load.emplace(nowNanos(), 0, &loaded_);
            loads.push_back(std::make_unique<AppendLoad>(stores_[arm], share(thread),
                                                         servers[arm]->requests,
                                                         servers[arm]->routes, recorder));
        }
        const auto fill = [&](std::size_t arm) {
            auto& load = *loads[arm];
            load.allow(arms_.size() > 1 ? kFillRequests : options_.items);
            const CountFinished count(load, results[arm].loaded);
            arms_.with(arm, [&] { servers[arm]->drive(load, *results[arm].load); });
            return !load.complete();
        };
        fillInTurns(arms_.size(), options_.ensemble.roundSeed, crew_.stop(), fill);
    }

    void update(std::size_t thread, std::vector<std::unique_ptr<Connected>>& servers) {
        auto& results = results_[thread];
        for (auto& result : results) {
            result.update.emplace(nowNanos(), 0, &updated_);
        }
        if (slices_.empty()) {
            return;  // too few documents to draw from
        }
        std::vector<std::unique_ptr<AppendUpdate>> passes(arms_.size());  // that each arm is in
        Turns::Done done;
        while (const auto turn = turns_.next(thread, done)) {
            const auto arm = turn->arm;
            const auto& slice = slices_[turn->round];
            auto& recorder = *results[arm].update;
            if (turn->round == 0) {
                recorder.restart(turn->begin, 0);
            }
            // The working set shrinks from pass to pass, for all threads at once.
            if (turn->round == 0 || slices_[turn->round - 1].pass != slice.pass) {
                passes[arm] = std::make_unique<AppendUpdate>(
                        stores_[arm], share(thread), servers[arm]->requests, servers[arm]->routes,
                        recorder,
                        appendPass(options_.items, slice.pass / kSteps, slice.pass % kSteps));
            }
            passes[arm]->allow(slice.draws);
            const auto before = recorder.total().ops();
            try {
                const CountFinished count(*passes[arm], results[arm].updated);
                arms_.with(arm, [&] { servers[arm]->drive(*passes[arm], recorder); });
            } catch (...) {
                turns_.abandon(thread);
                throw;
            }
            done = {recorder.total().ops() - before, turn->round + 1 == slices_.size()};
        }
    }

    void tick() {
        if (options_.progress) {
            std::fprintf(stderr, "append: loaded %llu, requests of updates %llu\n",
                         static_cast<unsigned long long>(loaded_.load(std::memory_order_relaxed)),
                         static_cast<unsigned long long>(updated_.load(std::memory_order_relaxed)));
        }
    }

    Json optionsJson() const {
        const auto& o = options_;
        Json json = arms_.ensemble() ? Json{{"slice_ops", o.sliceOps},
                                            {"round_seed", o.ensemble.roundSeed},
                                            {"arms", arms_.size()}}
                                     : Json{{"host", o.connection.session.host},
                                            {"port", o.connection.session.port}};
        json.update({{"bucket", o.connection.session.bucket},
                     {"plain", o.connection.session.plain},
                     {"authenticated", !arms_[0].session.user.empty()},
                     {"items", o.items},
                     {"rounds", o.rounds},
                     {"seed", o.seed},
                     {"in_flight", o.inFlight},
                     {"threads", o.threads},
                     {"vbuckets", o.vbuckets},
                     {"fields_min", o.fieldsMin},
                     {"fields_max", o.fieldsMax}});
        return json;
    }

    /// Adds the phases of an arm and what they cost the client.
    void describeArm(Json& report, std::size_t arm) const {
        ArmResult sum;
        for (const auto& thread : results_) {
            sum.merge(thread[arm]);
        }
        report["load"] = sum.load ? Json{{"ops", sum.loaded},
                                         {"seconds", seconds(sum.load->elapsed())},
                                         {"errors", toJson(sum.load->total().errors)}}
                                  : Json(nullptr);
        const auto inTurn =
                arms_.ensemble() ? std::optional(turns_.log(arm).inTurn()) : std::optional<Nanos>();
        report["update"] = nullptr;
        if (sum.update) {
            report["update"] = {{"rmw", sum.updated}};
            report["update"].update(phaseJson(*sum.update, inTurn));
        }
        // Known only if every document was stored; a failed or interrupted load leaves it open.
        const auto& store = stores_[arm];
        report["live_bytes"] = sum.loaded == store.items()
                                       ? Json(store.valueBytes() + store.items() * keys_.size())
                                       : Json(nullptr);
        const auto wall = inTurn.value_or(sum.update ? sum.update->elapsed() : 0);
        report["client"] = clientJson(armCpu(turns_, options_.threads, arm), seconds(wall),
                                      sum.update ? sum.update->total().ops() : 0);
    }

    void describe(Json& report, const CrewResult& result) const {
        report = {{"tool", "append"}, {"schema", 1}, {"options", optionsJson()}};
        if (arms_.ensemble()) {
            std::vector<ArmReport> parts(arms_.size());
            for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
                parts[arm].report = {{"tool", "append"}, {"schema", 1}};
                describeArm(parts[arm].report, arm);
            }
            addEnsemble(report, arms_, turns_, options_.threads,
                        {{"slice_s", nullptr}, {"slice_ops", options_.sliceOps}},
                        options_.ensemble.roundSeed, std::move(parts));
        } else {
            describeArm(report, 0);
        }
        addEnding(report, result);
    }

    const AppendOptions& options_;
    Crew crew_;
    Arms arms_;
    Turns turns_;
    std::vector<UpdateSlice> slices_;
    std::vector<AppendStore> stores_;  // by arm
    KeyCodec keys_;
    std::vector<std::vector<ArmResult>> results_;  // by thread and arm
    std::atomic<std::uint64_t> loaded_{0};
    std::atomic<std::uint64_t> updated_{0};
};

}  // namespace

CrewResult runAppend(const AppendOptions& options, Json& report) {
    return Append(options).run(report);
}

}  // namespace kv::load
