#include "load/generators/consistency_checker.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "load/core/barrier.h"
#include "load/generators/consistency_checker_worker.h"
#include "load/generators/report_json.h"
#include "load/generators/variants.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

namespace {
using What = ConsistencyCheckerPhase::What;

/// Writes the wall-clock time, which other hosts share. The file is written atomically.
void writeTime(const std::string& path) {
    const auto part = path + ".part";
    {
        std::ofstream file(part);
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        file << std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() << "\n";
        if (!file.flush()) {
            throw LoadError("cannot write " + part);
        }
    }
    std::filesystem::rename(part, path);
}

/// The results of a thread for a phase. Written by that thread, read when all have ended.
struct Part {
    Recorder recorder{0, 0};
    CpuTime cpu;
    Findings findings;

    void merge(const Part& other) {
        recorder.merge(other.recorder);
        cpu += other.cpu;
        findings.add(other.findings);
    }
};

class ConsistencyChecker {
  public:
    explicit ConsistencyChecker(const ConsistencyCheckerOptions& options)
        : options_(options),
          keys_("", KeyCodec::kMaxDigits),
          values_(ValueSource::Kind::kBinary, options.minSize, options.maxSize, options.seed) {
        const std::size_t all = std::size_t{options.threads} * options.connections;
        for (std::size_t i = 0; i < options.threads; ++i) {
            workers_.push_back(std::make_unique<ConsistencyCheckerWorker>(
                    options_, LaneRange{i * options.connections, options.connections, all}, keys_,
                    values_));
        }
    }

    RunResult run(Json& report) {
        auto result = phases();
        const auto mixed = sum(mixed_);
        report = {{"tool", "consistency_checker"},
                  {"schema", 1},
                  {"options", optionsJson()},
                  {"populate", nullptr},
                  {"learn", readJson(learned_)},
                  {"access", mixed ? mixJson(*mixed) : Json(nullptr)},
                  {"check", readJson(checked_)},
                  {"client", costJson(mixed)}};
        addEnding(report, result);
        return result;
    }

  private:
    RunResult phases() {
        auto result = learn();
        if (!result.interrupted && result.failure.empty()) {
            result = mix();  // a signal ends it
            if (result.failure.empty()) {
                result = check();
            }
        }
        return result;
    }

    RunResult learn() {
        ThreadTeam team(options_.threads);
        learned_.resize(options_.threads);
        return team.run(
                [&](std::size_t thread) {
                    workers_[thread]->connect();
                    learned_[thread].recorder = Recorder(nowNanos(), 0);
                    drive(thread, learned_[thread],
                          {What::kLearn, kNever, team.stop(), learned_[thread].recorder});
                    team.inStep();
                    if (options_.barrier && thread == 0 && !team.stop()) {
                        waitAtBarrier(*options_.barrier, options_.connection.session.timeout,
                                      team.stop());
                    }
                },
                [] {});
    }

    RunResult mix() {
        ThreadTeam team(options_.threads);
        mixed_.resize(options_.threads);
        return team.run(
                [&](std::size_t thread) {
                    const Nanos start = team.inStep([&] {
                        if (!options_.begun.empty()) {
                            writeTime(options_.begun);
                        }
                    });
                    auto& part = mixed_[thread];
                    part.recorder = Recorder(start, nanos(options_.ramp));
                    const Nanos end =
                            options_.duration > 0 ? start + nanos(options_.duration) : kNever;
                    drive(thread, part, {What::kMix, end, team.stop(), part.recorder});
                },
                [] {});
    }

    RunResult check() {
        ThreadTeam team(options_.threads);
        checked_.resize(options_.threads);
        return team.run(
                [&](std::size_t thread) {
                    checked_[thread].recorder = Recorder(nowNanos(), 0);
                    drive(thread, checked_[thread],
                          {What::kCheck, kNever, team.stop(), checked_[thread].recorder});
                },
                [] {});
    }

    void drive(std::size_t thread, Part& part, const ConsistencyCheckerPhase& phase) {
        const auto before = threadCpu();
        const auto leave = [&] {
            part.recorder.finish(nowNanos());
            part.cpu = threadCpu() - before;
            part.findings = workers_[thread]->takeFindings();
        };
        try {
            workers_[thread]->run(phase);
        } catch (const Stalled& stalled) {
            part.recorder.countTimeouts(stalled.inFlight);
            leave();
            throw;
        }
        leave();
    }

    /// Returns the merged parts of the threads for a phase; nothing if the phase was not reached.
    static std::optional<Part> sum(const std::vector<Part>& parts) {
        std::optional<Part> whole;
        for (const auto& part : parts) {
            mergeInto(whole, part);
        }
        return whole;
    }

    static Json readJson(const std::vector<Part>& parts) {
        const auto whole = sum(parts);
        if (!whole) {
            return nullptr;
        }
        const auto& total = whole->recorder.total();
        return {{"documents", total.gets},
                {"absent", whole->findings.absent},
                {"lost", whole->findings.lost},
                {"foreign", whole->findings.foreign},
                {"errors", toJson(total.errors)}};
    }

    Json mixJson(const Part& whole) const {
        auto json = phaseJson(whole.recorder, std::nullopt);
        json.update({{"lost", whole.findings.lost},
                     {"foreign", whole.findings.foreign},
                     {"not_my_vbucket", whole.findings.notMyVbucket},
                     {"broken_off", whole.findings.brokenOff},
                     {"maps", whole.findings.maps},
                     {"per_ms", perMilli()}});
        return json;
    }

    std::vector<std::uint64_t> perMilli() const {
        std::vector<std::uint64_t> all;
        for (const auto& worker : workers_) {
            const auto& counts = worker->perMilli();
            all.resize(std::max(all.size(), counts.size()));
            for (std::size_t i = 0; i < counts.size(); ++i) {
                all[i] += counts[i];
            }
        }
        return all;
    }

    Json costJson(const std::optional<Part>& mixed) const {
        std::vector<CpuTime> cpu;
        cpu.reserve(mixed_.size());
        for (const auto& part : mixed_) {
            cpu.push_back(part.cpu);
        }
        return clientJson(cpu, mixed ? seconds(mixed->recorder.elapsed()) : 0,
                          mixed ? mixed->recorder.total().ops() : 0);
    }

    Json optionsJson() const {
        const auto& o = options_;
        return {{"host", o.connection.session.host},
                {"port", o.connection.session.port},
                {"bucket", o.connection.session.bucket},
                {"authenticated", !o.connection.session.user.empty()},
                {"num_items", o.items},
                {"start_at", o.startAt},
                {"num_threads", o.threads},
                {"connections", o.connections},
                {"batch_size", o.batch},
                {"set_pct", o.setPercent},
                {"min_size", o.minSize},
                {"max_size", o.maxSize},
                {"random_seed", o.seed},
                {"duration", o.duration},
                {"ramp", o.ramp},
                {"vbuckets", o.vbuckets}};
    }

    const ConsistencyCheckerOptions& options_;
    KeyCodec keys_;
    ValueSource values_;
    std::vector<std::unique_ptr<ConsistencyCheckerWorker>> workers_;
    std::vector<Part> learned_;  // by thread, as the next two; empty: not reached
    std::vector<Part> mixed_;
    std::vector<Part> checked_;
};

}  // namespace

RunResult runConsistencyChecker(const ConsistencyCheckerOptions& options, Json& report) {
    return ConsistencyChecker(options).run(report);
}

}  // namespace kv::load
