#include "load/append.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "load/append_traffic.h"
#include "load/report_json.h"

namespace kv::load {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kSteps = 3;  // passes of a round: all, half, a quarter of the documents

/// What a thread leaves behind. Written by that thread, read when all have ended.
struct ThreadResult {
    std::optional<Recorder> load;
    std::optional<Recorder> update;
    std::uint64_t loaded = 0;
    std::uint64_t updated = 0;
    CpuTime updateCpu;
};

class Append {
  public:
    Append(const AppendOptions& options, AppendStore& store)
        : options_(options),
          store_(store),
          crew_(options.threads),
          keys_("AB_", 12, "_0"),
          results_(options.threads) {}

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
        std::vector<std::unique_ptr<Channel>> channels;
        const RequestWriter requests = connect(channels);
        EventLoop loop(
                std::move(channels), crew_.stop(),
                static_cast<Nanos>(options_.connection.opTimeout * static_cast<double>(kSecond)));
        auto& result = results_[thread];

        auto& loadRecorder = result.load.emplace(crew_.inStep(), 0, &loaded_);
        if (!crew_.stop()) {
            AppendLoad load(store_, share(thread), requests, loadRecorder);
            drive(loop, load, loadRecorder, result.loaded);
        }
        auto& recorder = result.update.emplace(crew_.inStep(), 0, &updated_);
        const auto before = threadCpu();
        for (std::uint32_t pass = 0; pass < options_.rounds * kSteps && !crew_.stop(); ++pass) {
            AppendUpdate update(store_, share(thread), requests, recorder,
                                appendPass(store_.items(), pass / kSteps, pass % kSteps));
            drive(loop, update, recorder, result.updated);
            result.updateCpu = threadCpu() - before;
            crew_.inStep();  // the working set shrinks for all threads at once
        }
    }

    RequestWriter connect(std::vector<std::unique_ptr<Channel>>& channels) {
        const auto& sessionOptions = options_.connection.session;
        RequestWriter::Shape shape;
        shape.flags = 0x02000000U;  // JSON, for the SDKs
        shape.vbuckets = sessionOptions.plain ? 0 : options_.vbuckets;
        auto session = openSession(sessionOptions);
        if (shape.vbuckets == 0 && !sessionOptions.plain) {
            shape.vbuckets = askVbuckets(session.client);
        }
        channels.push_back(std::make_unique<Channel>(session.client.takeSocket(), 0));
        return {keys_, shape};
    }

    static void drive(EventLoop& loop, AppendTraffic& traffic, Recorder& recorder,
                      std::uint64_t& finished) {
        try {
            loop.run(traffic);
        } catch (const Stalled& stalled) {
            recorder.countTimeouts(stalled.inFlight);
            recorder.finish(nowNanos());
            finished += traffic.finished();
            throw;
        } catch (...) {
            finished += traffic.finished();
            throw;
        }
        finished += traffic.finished();
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
        return {{"host", o.connection.session.host},
                {"port", o.connection.session.port},
                {"bucket", o.connection.session.bucket},
                {"plain", o.connection.session.plain},
                {"authenticated", !o.connection.session.user.empty()},
                {"items", o.items},
                {"rounds", o.rounds},
                {"seed", o.seed},
                {"in_flight", o.inFlight},
                {"threads", o.threads},
                {"vbuckets", o.vbuckets},
                {"fields_min", o.fieldsMin},
                {"fields_max", o.fieldsMax}};
    }

    void describe(Json& report, const CrewResult& result) const {
        std::optional<Recorder> load;
        std::optional<Recorder> update;
        std::uint64_t loaded = 0;
        std::uint64_t updated = 0;
        std::vector<CpuTime> cpu;
        for (const auto& thread : results_) {
            const auto merge = [](std::optional<Recorder>& sum,
                                  const std::optional<Recorder>& one) {
                if (one && sum) {
                    sum->merge(*one);
                } else if (one) {
                    sum = one;
                }
            };
            merge(load, thread.load);
            merge(update, thread.update);
            loaded += thread.loaded;
            updated += thread.updated;
            cpu.push_back(thread.updateCpu);
        }
        report = {{"tool", "append"}, {"schema", 1}, {"options", optionsJson()}};
        report["load"] = load ? Json{{"ops", loaded},
                                     {"seconds", seconds(load->elapsed())},
                                     {"errors", toJson(load->total().errors)}}
                              : Json(nullptr);
        report["update"] = nullptr;
        if (update) {
            report["update"] = {{"rmw", updated}};
            report["update"].update(phaseJson(*update));
        }
        // Known only if every document was stored; a failed or interrupted load leaves it open.
        report["live_bytes"] = loaded == store_.items()
                                       ? Json(store_.valueBytes() + store_.items() * keys_.size())
                                       : Json(nullptr);
        report["client"] = clientJson(cpu, update ? seconds(update->elapsed()) : 0,
                                      update ? update->total().ops() : 0);
        if (result.interrupted) {
            report["interrupted"] = true;
        }
        if (!result.failure.empty()) {
            report["failure"] = result.failure;
        }
    }

    const AppendOptions& options_;
    AppendStore& store_;
    Crew crew_;
    KeyCodec keys_;
    std::vector<ThreadResult> results_;
    std::atomic<std::uint64_t> loaded_{0};
    std::atomic<std::uint64_t> updated_{0};
};

}  // namespace

CrewResult runAppend(const AppendOptions& options, AppendStore& store, Json& report) {
    return Append(options, store).run(report);
}

}  // namespace kv::load
