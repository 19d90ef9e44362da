#include "load/generators/variants.h"

#include <map>
#include <tuple>

#include "load/core/cpu_clock.h"
#include "load/generators/report_json.h"
#include "load/protocols/handshake.h"

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
            {"own_cpu_ns", ifComplete(log.ownCpu)},
            {"foreign_cpu_ns", ifComplete(log.foreignCpu)},
            {"client_cpu_ns", log.clientCpu},
            {"client_delay_ns", ifComplete(log.clientDelay)},
            {"position", log.position}};
}

Json variantJson(const Variant& variant, const SliceLog& log, std::optional<Nanos> idleCpu,
                 VariantReport& part) {
    const auto& warmup = part.warmup;
    const auto& path = variant.session.unixPath;
    const bool tcp = path.empty();
    return {{"host", tcp ? Json(variant.session.host) : Json(nullptr)},
            {"port", tcp ? Json(variant.session.port) : Json(nullptr)},
            {"unix", tcp ? Json(nullptr) : Json(path)},
            {"protocol", toString(variant.session.protocol)},
            {"protocol_asked", toString(variant.protocolAsked)},
            {"pid", variant.pid ? Json(*variant.pid) : Json(nullptr)},
            {"report", std::move(part.report)},
            {"warmup",
             {{"ops", warmup.ops()},
              {"gets", warmup.gets},
              {"sets", warmup.sets},
              {"misses", warmup.misses},
              {"errors", toJson(warmup.errors)}}},
            {"idle_cpu_ns", idleCpu ? Json(*idleCpu) : Json(nullptr)},
            {"slices", slicesJson(log)}};
}

}  // namespace

Variants::Variants(const GroupFlags& flags, const ConnectionFlags& connection)
    : variants_(flags.given() ? flags.variants : std::vector<Variant>{Variant{connection.session}}),
      group_(flags.given()) {
    for (auto& variant : variants_) {
        variant.protocolAsked = variant.session.protocol;
    }
}

void Variants::detectProtocols(const std::atomic<bool>& stop) {
    for (std::size_t variant = 0; variant < variants_.size() && !stop; ++variant) {
        auto& session = variants_[variant].session;
        if (session.protocol == Protocol::kAuto) {
            session.protocol = with(variant, [&] { return detectProtocol(session); });
        }
    }
}

void Variants::fail(std::size_t variant, const LoadError& error) const {
    if (!group_) {
        throw;  // the exception that with() is handling
    }
    const auto& session = variants_[variant].session;
    throw VariantFailure(variant, "variant " + std::to_string(variant) + " (" + addressOf(session) +
                                          "): " + error.what());
}

SliceSchedule::OpenClock Variants::openClock() const {
    // By host, port and password: a connection serves all processes of its host.
    using Key = std::tuple<std::string, std::uint16_t, std::string>;
    using Connections = std::map<Key, std::shared_ptr<ClockConnection>>;
    const auto connections = std::make_shared<Connections>();
    return [this, connections](std::size_t variant) -> std::unique_ptr<CpuClock> {
        const auto& session = variants_[variant].session;
        const auto& common = variants_[variant].clockPassword;
        const auto& password = common.empty() ? session.password : common;
        std::vector<std::unique_ptr<CpuClock>> clocks;
        for (const auto& [pid, clock] : variants_[variant].processes()) {
            if (clock) {
                auto& shared = (*connections)[{clock->host, clock->port, password}];
                if (shared == nullptr) {
                    shared = std::make_shared<ClockConnection>(*clock, password, session.timeout);
                }
                clocks.push_back(std::make_unique<RemoteCpuClock>(shared, pid));
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

std::vector<std::unique_ptr<Channel>> Connected::channelsOf(std::vector<Socket> sockets) {
    std::vector<std::unique_ptr<Channel>> channels;
    for (auto& socket : sockets) {
        channels.push_back(std::make_unique<Channel>(std::move(socket), channels.size()));
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

std::vector<CpuTime> variantCpu(const SliceSchedule& schedule, std::size_t threads,
                                std::size_t variant) {
    std::vector<CpuTime> cpu;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        cpu.push_back(schedule.cpu(thread, variant));
    }
    return cpu;
}

std::vector<CpuTime> wholeCpu(const SliceSchedule& schedule, std::size_t threads) {
    std::vector<CpuTime> cpu;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        cpu.push_back(schedule.cpu(thread));
    }
    return cpu;
}

void addGroup(Json& report, const Variants& variants, const SliceSchedule& schedule,
              std::size_t threads, const Json& slice, std::uint64_t roundSeed,
              std::vector<VariantReport> reports) {
    Json group = slice;
    group["round_seed"] = roundSeed;
    group["warmup_rounds"] = schedule.warmupRounds();
    group["rounds"] = schedule.log(0).rounds();
    group["seconds"] = seconds(schedule.measuredTime());
    group["idle_s"] = seconds(schedule.idleTime());
    group["variants"] = Json::array();
    std::uint64_t ops = 0;
    for (std::size_t variant = 0; variant < variants.size(); ++variant) {
        for (const auto count : schedule.log(variant).ops) {
            ops += count;
        }
        group["variants"].push_back(variantJson(variants[variant], schedule.log(variant),
                                                schedule.idleCpu(variant), reports[variant]));
    }
    report["group"] = std::move(group);
    report["client"] =
            clientJson(wholeCpu(schedule, threads), seconds(schedule.measuredTime()), ops);
}

void addEnding(Json& report, const RunResult& result) {
    if (result.interrupted) {
        report["interrupted"] = true;
    }
    if (result.failure.empty()) {
        return;
    }
    report["failure"] = result.failure;
    try {
        std::rethrow_exception(result.cause);
    } catch (const VariantFailure& failure) {
        report["failed_variant"] = failure.variant;
    } catch (const std::exception&) {
        // not a variant's fault, or a single server
    }
}

}  // namespace kv::load
