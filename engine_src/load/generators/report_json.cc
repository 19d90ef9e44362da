#include "load/generators/report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/protocols/reply.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

Json toJson(const Histogram& histogram) {
    Json json{{"count", histogram.count()},      {"mean", histogram.mean()},
              {"max", histogram.max()},          {"p50", histogram.percentile(50)},
              {"p90", histogram.percentile(90)}, {"p95", histogram.percentile(95)},
              {"p99", histogram.percentile(99)}, {"p99_9", histogram.percentile(99.9)},
              {"buckets", Json::array()}};
    for (const auto& [upper, count] : histogram.buckets()) {
        json["buckets"].push_back({upper, count});
    }
    return json;
}

Json toJson(const Errors& errors) {
    return {{"etmpfail", errors.etmpfail},
            {"enomem", errors.enomem},
            {"timeout", errors.timeout},
            {"not_my_vbucket", errors.notMyVbucket},
            {"other", errors.other}};
}

void addRefusal(Json& phase, const Recorder& recorder) {
    if (!recorder.refusal().empty()) {
        phase["refusal"] = printable(recorder.refusal());
    }
}

Json latencyJson(const Recorder& recorder) {
    return {{"get", toJson(recorder.histogram(OpKind::kGet))},
            {"set", toJson(recorder.histogram(OpKind::kSet))}};
}

Json seriesJson(const Recorder& recorder) {
    Json series = Json::array();
    const double length = seconds(recorder.elapsed());
    // A phase that lasts seconds longer than its last answer shows them as zeros.
    const auto points = std::max(recorder.series().size(),
                                 static_cast<std::size_t>(recorder.elapsed() / kSecond));
    double before = 0;
    for (std::size_t i = 0; i < points; ++i) {
        const auto point = i < recorder.series().size() ? recorder.series()[i] : SeriesPoint{};
        const double t = std::min(static_cast<double>(i + 1), length);
        if (t <= before) {
            // An answer in the very nanosecond in which a second begins belongs to no second.
            break;
        }
        before = t;
        series.push_back({{"t", t},
                          {"ops", point.gets + point.sets},
                          {"gets", point.gets},
                          {"sets", point.sets},
                          {"misses", point.misses},
                          {"errors", point.errors}});
    }
    return series;
}

Json phaseJson(const Recorder& recorder, std::optional<Nanos> sliceTime) {
    const OpCounts& total = recorder.total();
    Json phase{{"ops", total.ops()},
               {"gets", total.gets},
               {"sets", total.sets},
               {"hits", total.hits},
               {"misses", total.misses},
               {"verified", total.verified},
               {"errors", toJson(total.errors)},
               {"seconds", seconds(sliceTime.value_or(recorder.elapsed()))}};
    addRefusal(phase, recorder);
    if (!sliceTime) {
        phase["series"] = seriesJson(recorder);
    }
    phase["latency_ns"] = latencyJson(recorder);
    return phase;
}

Json clientJson(const std::vector<CpuTime>& cpu, double wallSeconds, std::uint64_t ops) {
    CpuTime sum;
    double busiest = 0;
    for (const auto& thread : cpu) {
        sum.user += thread.user;
        sum.system += thread.system;
        busiest = std::max(busiest, thread.total());
    }
    const double perOp = ops == 0 ? 0 : sum.total() * 1e6 / static_cast<double>(ops);
    const double busy = wallSeconds > 0 ? std::min(1.0, busiest / wallSeconds) : 0;
    return {{"cpu_user_s", sum.user}, {"cpu_sys_s", sum.system}, {"wall_s", wallSeconds},
            {"threads", cpu.size()},  {"cpu_us_per_op", perOp},  {"busiest_thread_busy", busy}};
}

}  // namespace kv::load
