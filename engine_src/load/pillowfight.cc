#include "load/pillowfight.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "load/batch_traffic.h"
#include "load/populate_plan.h"
#include "load/report_json.h"

namespace kv::load {

namespace {

using Json = nlohmann::ordered_json;

/// What a thread leaves behind. Written by that thread, read when all have ended.
struct ThreadResult {
    std::optional<Recorder> populate;
    std::optional<Recorder> access;
    CpuTime accessCpu;
    std::uint64_t overdue = 0;
};

class Pillowfight {
  public:
    explicit Pillowfight(const PillowfightOptions& options)
        : options_(options),
          crew_(options.threads),
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
    LaneRange lanes(std::size_t thread) const {
        return {thread * options_.connections, options_.connections,
                std::size_t{options_.threads} * options_.connections};
    }

    void work(std::size_t thread) {
        std::vector<std::unique_ptr<Channel>> channels;
        const RequestWriter requests = connect(channels);
        EventLoop loop(
                std::move(channels), crew_.stop(),
                static_cast<Nanos>(options_.connection.opTimeout * static_cast<double>(kSecond)));
        const Nanos populateStart = crew_.inStep();
        if (!options_.noPopulation && !crew_.stop()) {
            populate(thread, loop, requests, populateStart);
        }
        const Nanos accessStart = crew_.inStep();
        if (!options_.populateOnly && !crew_.stop()) {
            access(thread, loop, requests, accessStart);
        }
    }

    RequestWriter connect(std::vector<std::unique_ptr<Channel>>& channels) {
        RequestWriter::Shape shape;
        shape.vbuckets = options_.vbuckets;
        shape.expiry = options_.expiry;
        // The common flags by which the SDKs know what a document is.
        shape.flags = options_.json ? 0x02000000U : 0x03000002U;
        auto sessionOptions = options_.connection.session;
        sessionOptions.json = options_.json;
        for (std::uint32_t i = 0; i < options_.connections; ++i) {
            auto session = openSession(sessionOptions);
            if (session.jsonAcknowledged) {
                shape.datatype = protocol::Datatype::kJson;
            }
            if (shape.vbuckets == 0 && !sessionOptions.plain) {
                shape.vbuckets = askVbuckets(session.client);
            }
            channels.push_back(std::make_unique<Channel>(session.client.takeSocket(), i));
        }
        if (sessionOptions.plain) {
            shape.vbuckets = 0;
        }
        return {keys_, shape};
    }

    /// Runs the traffic; keeps what was recorded also when the connection is lost on the way.
    template <class Plan>
    void drive(EventLoop& loop, Plan& plan, Recorder& recorder) {
        BatchTraffic<Plan> traffic(plan, recorder, options_.effectiveWindow());
        try {
            loop.run(traffic);
        } catch (const Stalled& stalled) {
            recorder.countTimeouts(stalled.inFlight);
            recorder.finish(nowNanos());
            throw;
        }
    }

    void populate(std::size_t thread, EventLoop& loop, const RequestWriter& requests, Nanos start) {
        PopulatePlan plan(options_.access.items, options_.access.startAt, options_.access.seed,
                          options_.access.batch, options_.effectiveWindow(), lanes(thread),
                          requests, values_);
        drive(loop, plan, results_[thread].populate.emplace(start, 0, &populated_));
    }

    void access(std::size_t thread, EventLoop& loop, const RequestWriter& requests, Nanos start) {
        const auto nanos = [](double s) {
            return static_cast<Nanos>(s * static_cast<double>(kSecond));
        };
        const Nanos deadline = options_.duration > 0 ? start + nanos(options_.duration) : kNever;
        AccessPlan plan(options_.access, lanes(thread), requests, values_, start, deadline);
        auto& result = results_[thread];
        auto& recorder = result.access.emplace(start, nanos(options_.ramp), &accessed_);
        const auto before = threadCpu();
        try {
            drive(loop, plan, recorder);
        } catch (...) {
            result.accessCpu = threadCpu() - before;
            throw;
        }
        result.accessCpu = threadCpu() - before;
        result.overdue = plan.overdue(nowNanos());
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
        return {{"host", o.connection.session.host},
                {"port", o.connection.session.port},
                {"bucket", o.connection.session.bucket},
                {"plain", o.connection.session.plain},
                {"authenticated", !o.connection.session.user.empty()},
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
                {"vbuckets", o.vbuckets}};
    }

    void describe(Json& report, const CrewResult& result) const {
        std::optional<Recorder> populate;
        std::optional<Recorder> access;
        std::vector<CpuTime> cpu;
        std::uint64_t overdue = 0;
        for (const auto& thread : results_) {
            const auto merge = [](std::optional<Recorder>& sum,
                                  const std::optional<Recorder>& one) {
                if (one && sum) {
                    sum->merge(*one);
                } else if (one) {
                    sum = one;
                }
            };
            merge(populate, thread.populate);
            merge(access, thread.access);
            cpu.push_back(thread.accessCpu);
            overdue += thread.overdue;
        }
        report = {{"tool", "pillowfight"}, {"schema", 1}, {"options", optionsJson()}};
        report["populate"] = populate ? Json{{"ops", populate->total().ops()},
                                             {"seconds", seconds(populate->elapsed())},
                                             {"errors", toJson(populate->total().errors)}}
                                      : Json(nullptr);
        report["access"] = access ? phaseJson(*access) : Json(nullptr);
        if (access && options_.access.rate > 0) {
            report["access"]["overdue"] = overdue;
        }
        report["client"] = clientJson(cpu, access ? seconds(access->elapsed()) : 0,
                                      access ? access->total().ops() : 0);
        if (result.interrupted) {
            report["interrupted"] = true;
        }
        if (!result.failure.empty()) {
            report["failure"] = result.failure;
        }
    }

    const PillowfightOptions& options_;
    Crew crew_;
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
