#include "load/generators/append.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "load/core/round_order.h"
#include "load/generators/access_plan.h"
#include "load/generators/append_traffic.h"
#include "load/generators/report_json.h"
#include "load/generators/variants.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::uint32_t kSteps = 3;  // passes per round: all, half, a quarter of the documents

/// The part of a pass that is one slice of a variant.
struct UpdatePart {
    std::uint32_t pass = 0;
    std::uint64_t draws = 0;
};

/// Divides all passes into nearly equal parts of at most `sliceOps` draws; 0: a pass is one part.
std::vector<UpdatePart> cutIntoParts(std::uint64_t items, std::uint32_t passes,
                                     std::uint64_t sliceOps) {
    std::vector<UpdatePart> result;
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
        const auto draws = appendPass(items, pass / kSteps, pass % kSteps).draws;
        const auto parts = sliceOps == 0 ? std::uint64_t{draws != 0}
                                         : draws / sliceOps + (draws % sliceOps != 0 ? 1 : 0);
        for (std::uint64_t part = 0; part < parts; ++part) {
            result.push_back(
                    {pass, partBegin(draws, part + 1, parts) - partBegin(draws, part, parts)});
        }
    }
    return result;
}

/// The results of a thread for one variant.
struct AppendResult {
    std::optional<Recorder> load;
    std::optional<Recorder> update;
    std::uint64_t loaded = 0;
    std::uint64_t updated = 0;

    void merge(const AppendResult& other) {
        for (const auto phase : {&AppendResult::load, &AppendResult::update}) {
            if (other.*phase) {
                mergeInto(this->*phase, *(other.*phase));
            }
        }
        loaded += other.loaded;
        updated += other.updated;
    }
};

/// Adds the work that a traffic finishes, also if it fails on the way.
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

/// One thread's connections to one variant, and how requests to it are written.
struct AppendServer {
    RequestWriter requests;
    Connected link;

    AppendServer(const RequestWriter& writer, std::vector<Socket> sockets, ClusterMap map,
                 const std::atomic<bool>& stop, Nanos stallTimeout)
        : requests(writer), link(std::move(sockets), std::move(map), stop, stallTimeout) {}
};

class Append {
  public:
    explicit Append(const AppendOptions& options)
        : options_(options),
          team_(options.threads),
          variants_(options.group, options.connection),
          schedule_(team_,
                    {.variants = variants_.size(),
                     .seed = options.group.roundSeed,
                     .idle = nanos(options.group.idle)},
                    variants_.openClock()),
          parts_(cutIntoParts(options.items, options.rounds * kSteps,
                              variants_.group() ? options.sliceOps : 0)),
          stores_(variants_.size(),
                  AppendStore(options.items, options.seed, options.fieldsMin, options.fieldsMax)),
          keys_("AB_", 12, "_0"),
          results_(options.threads, std::vector<AppendResult>(variants_.size())) {}

    RunResult run(Json& report) {
        auto result = team_.run([this](std::size_t thread) { work(thread); }, [this] { tick(); });
        describe(report, result);
        return result;
    }

  private:
    AppendShare share(std::size_t thread) const {
        // The remainder goes to the first threads, so that the sum is exact.
        const auto n = options_.inFlight / options_.threads +
                       (thread < options_.inFlight % options_.threads ? 1 : 0);
        return {thread, options_.threads, n};
    }

    void work(std::size_t thread) {
        std::vector<std::unique_ptr<AppendServer>> servers;
        for (std::size_t variant = 0; variant < variants_.size() && !team_.stop(); ++variant) {
            servers.push_back(
                    variants_.with(variant, [&] { return connect(variants_[variant].session); }));
            team_.inStep();  // slots are filled one after the other
        }
        if (!team_.stop()) {
            load(thread, servers);
        }
        team_.inStep();
        if (!team_.stop()) {
            update(thread, servers);
        }
    }

    std::unique_ptr<AppendServer> connect(const SessionOptions& sessionOptions) {
        RequestWriter::Shape shape;
        shape.flags = 0x02000000U;  // JSON, for the SDKs
        auto opened = openSessions(sessionOptions, options_.vbuckets, 1);
        shape.vbuckets = opened.vbuckets;
        std::vector<Socket> sockets;
        for (auto& session : opened.sessions) {
            sockets.push_back(session.client.takeSocket());
        }
        return std::make_unique<AppendServer>(RequestWriter(keys_, shape), std::move(sockets),
                                              std::move(opened.map), team_.stop(),
                                              nanos(options_.connection.opTimeout));
    }

    void load(std::size_t thread, std::vector<std::unique_ptr<AppendServer>>& servers) {
        auto& results = results_[thread];
        std::vector<std::unique_ptr<AppendLoad>> loads;
        for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
            auto& recorder = results[variant].load.emplace(nowNanos(), 0, &loaded_);
            loads.push_back(std::make_unique<AppendLoad>(stores_[variant], share(thread),
                                                         servers[variant]->requests,
                                                         servers[variant]->link.routes, recorder));
        }
        const auto fill = [&](std::size_t variant) {
            auto& load = *loads[variant];
            load.allow(variants_.size() > 1 ? kFillRequests : options_.items);
            const CountFinished count(load, results[variant].loaded);
            variants_.with(variant,
                           [&] { servers[variant]->link.drive(load, *results[variant].load); });
            return !load.complete();
        };
        fillInRotation(variants_.size(), options_.group.roundSeed, team_.stop(), fill);
    }

    void update(std::size_t thread, std::vector<std::unique_ptr<AppendServer>>& servers) {
        auto& results = results_[thread];
        for (auto& result : results) {
            result.update.emplace(nowNanos(), 0, &updated_);
        }
        if (parts_.empty()) {
            return;  // too few documents to draw from
        }
        std::vector<std::unique_ptr<AppendUpdate>> passes(
                variants_.size());  // part number of each variant
        SliceSchedule::Done done;
        while (const auto slice = schedule_.next(thread, done)) {
            const auto variant = slice->variant;
            const auto& part = parts_[slice->round];
            auto& recorder = *results[variant].update;
            if (slice->round == 0) {
                recorder.restart(slice->begin, 0);
            }
            // The working set shrinks from pass to pass, for all threads at once.
            if (slice->round == 0 || parts_[slice->round - 1].pass != part.pass) {
                passes[variant] = std::make_unique<AppendUpdate>(
                        stores_[variant], share(thread), servers[variant]->requests,
                        servers[variant]->link.routes, recorder,
                        appendPass(options_.items, part.pass / kSteps, part.pass % kSteps));
            }
            passes[variant]->allow(part.draws);
            const auto before = recorder.total().ops();
            try {
                const CountFinished count(*passes[variant], results[variant].updated);
                variants_.with(variant,
                               [&] { servers[variant]->link.drive(*passes[variant], recorder); });
            } catch (...) {
                schedule_.abandon(thread);
                throw;
            }
            done = {recorder.total().ops() - before, slice->round + 1 == parts_.size()};
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
        Json json = variants_.group() ? Json{{"slice_ops", o.sliceOps},
                                             {"round_seed", o.group.roundSeed},
                                             {"variants", variants_.size()}}
                                      : Json{{"host", o.connection.session.host},
                                             {"port", o.connection.session.port}};
        json.update({{"bucket", o.connection.session.bucket},
                     {"plain", o.connection.session.plain},
                     {"authenticated", !variants_[0].session.user.empty()},
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

    /// Adds the phases of a variant and their cost for the client.
    void describeVariant(Json& report, std::size_t variant) const {
        AppendResult sum;
        for (const auto& thread : results_) {
            sum.merge(thread[variant]);
        }
        report["load"] = sum.load ? Json{{"ops", sum.loaded},
                                         {"seconds", seconds(sum.load->elapsed())},
                                         {"errors", toJson(sum.load->total().errors)}}
                                  : Json(nullptr);
        const auto sliceTime = variants_.group() ? std::optional(schedule_.log(variant).sliceTime())
                                                 : std::optional<Nanos>();
        report["update"] = nullptr;
        if (sum.update) {
            report["update"] = {{"rmw", sum.updated}};
            report["update"].update(phaseJson(*sum.update, sliceTime));
        }
        // Known only if every document was stored; unknown after a failed or interrupted load.
        const auto& store = stores_[variant];
        report["live_bytes"] = sum.loaded == store.items()
                                       ? Json(store.valueBytes() + store.items() * keys_.size())
                                       : Json(nullptr);
        const auto wall = sliceTime.value_or(sum.update ? sum.update->elapsed() : 0);
        report["client"] = clientJson(variantCpu(schedule_, options_.threads, variant),
                                      seconds(wall), sum.update ? sum.update->total().ops() : 0);
    }

    void describe(Json& report, const RunResult& result) const {
        report = {{"tool", "append"}, {"schema", 1}, {"options", optionsJson()}};
        if (variants_.group()) {
            std::vector<VariantReport> parts(variants_.size());
            for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
                parts[variant].report = {{"tool", "append"}, {"schema", 1}};
                describeVariant(parts[variant].report, variant);
            }
            addGroup(report, variants_, schedule_, options_.threads,
                     {{"slice_s", nullptr}, {"slice_ops", options_.sliceOps}},
                     options_.group.roundSeed, std::move(parts));
        } else {
            describeVariant(report, 0);
        }
        addEnding(report, result);
    }

    const AppendOptions& options_;
    ThreadTeam team_;
    Variants variants_;
    SliceSchedule schedule_;
    std::vector<UpdatePart> parts_;
    std::vector<AppendStore> stores_;  // by variant
    KeyCodec keys_;
    std::vector<std::vector<AppendResult>> results_;  // by thread and variant
    std::atomic<std::uint64_t> loaded_{0};
    std::atomic<std::uint64_t> updated_{0};
};

}  // namespace

RunResult runAppend(const AppendOptions& options, Json& report) {
    return Append(options).run(report);
}

}  // namespace kv::load
