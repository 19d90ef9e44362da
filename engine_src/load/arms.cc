#include "load/arms.h"

#include "load/remote_cpu_clock.h"
#include "load/report_json.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

namespace {

Json slicesJson(const SliceLog& log) {
    const auto ifComplete = [&](const std::vector<Nanos>& figures) {
        return figures.size() == log.rounds() ? Json(figures) : Json(nullptr);
    };
    return {{"start_ns", log.start},
            {"wall_ns", log.wall},
            {"ops", log.ops},
            {"cpu_ns", ifComplete(log.cpu)},
            {"client_cpu_ns", log.clientCpu},
            {"client_delay_ns", ifComplete(log.clientDelay)},
            {"position", log.position}};
}

Json armJson(const Arm& arm, const SliceLog& log, ArmReport& part) {
    const auto& warmup = part.warmup;
    return {{"host", arm.session.host},
            {"port", arm.session.port},
            {"pid", arm.pid ? Json(*arm.pid) : Json(nullptr)},
            {"report", std::move(part.report)},
            {"warmup",
             {{"ops", warmup.ops()},
              {"gets", warmup.gets},
              {"sets", warmup.sets},
              {"misses", warmup.misses},
              {"errors", toJson(warmup.errors)}}},
            {"slices", slicesJson(log)}};
}

}  // namespace

Arms::Arms(const EnsembleFlags& flags, const ConnectionFlags& connection)
    : arms_(flags.given() ? flags.arms : std::vector<Arm>{Arm{connection.session}}),
      ensemble_(flags.given()) {}

void Arms::fail(std::size_t arm, const LoadError& error) const {
    if (!ensemble_) {
        throw;  // the one that with() is handling
    }
    const auto& session = arms_[arm].session;
    throw ArmFailure(arm, "arm " + std::to_string(arm) + " (" + session.host + ":" +
                                  std::to_string(session.port) + "): " + error.what());
}

Turns::OpenClock Arms::openClock() const {
    return [this](std::size_t arm) -> std::unique_ptr<CpuClock> {
        const auto& session = arms_[arm].session;
        std::vector<std::unique_ptr<CpuClock>> clocks;
        for (const auto& [pid, clock] : arms_[arm].processes()) {
            if (clock) {
                clocks.push_back(std::make_unique<RemoteCpuClock>(*clock, session.password, pid,
                                                                  session.timeout));
            } else {
                clocks.push_back(std::make_unique<ProcessCpuClock>(pid));
            }
        }
        if (clocks.size() > 1) {
            return std::make_unique<SumCpuClock>(std::move(clocks));
        }
        return clocks.empty() ? nullptr : std::move(clocks.front());
    };
}

std::vector<std::unique_ptr<Channel>> Connected::channelsOf(std::vector<Session> sessions) {
    std::vector<std::unique_ptr<Channel>> channels;
    for (auto& session : sessions) {
        channels.push_back(std::make_unique<Channel>(session.client.takeSocket(), channels.size()));
    }
    return channels;
}

void Connected::drive(Traffic& traffic, Recorder& recorder) {
    try {
        loop.run(traffic);
    } catch (const Stalled& stalled) {
        recorder.countTimeouts(stalled.inFlight);
        recorder.finish(nowNanos());
        throw;
    }
}

std::vector<CpuTime> armCpu(const Turns& turns, std::size_t threads, std::size_t arm) {
    std::vector<CpuTime> cpu;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        cpu.push_back(turns.cpu(thread, arm));
    }
    return cpu;
}

std::vector<CpuTime> wholeCpu(const Turns& turns, std::size_t threads) {
    std::vector<CpuTime> cpu;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        cpu.push_back(turns.cpu(thread));
    }
    return cpu;
}

void addEnsemble(Json& report, const Arms& arms, const Turns& turns, std::size_t threads,
                 const Json& slice, std::uint64_t roundSeed, std::vector<ArmReport> reports) {
    Json ensemble = slice;
    ensemble["round_seed"] = roundSeed;
    ensemble["warmup_rounds"] = turns.warmupRounds();
    ensemble["rounds"] = turns.log(0).rounds();
    ensemble["seconds"] = seconds(turns.measuredTime());
    ensemble["arms"] = Json::array();
    std::uint64_t ops = 0;
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
        for (const auto count : turns.log(arm).ops) {
            ops += count;
        }
        ensemble["arms"].push_back(armJson(arms[arm], turns.log(arm), reports[arm]));
    }
    report["ensemble"] = std::move(ensemble);
    report["client"] = clientJson(wholeCpu(turns, threads), seconds(turns.measuredTime()), ops);
}

void addEnding(Json& report, const CrewResult& result) {
    if (result.interrupted) {
        report["interrupted"] = true;
    }
    if (result.failure.empty()) {
        return;
    }
    report["failure"] = result.failure;
    try {
        std::rethrow_exception(result.cause);
    } catch (const ArmFailure& failure) {
        report["failed_arm"] = failure.arm;
    } catch (const std::exception&) {
        // not an arm's fault, or a single server
    }
}

}  // namespace kv::load
