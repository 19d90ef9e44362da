#include "slices/slice_server.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace kv::slices {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kProtocol = 1;

template <class Value>
Json orNull(const std::optional<Value>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json greeting(SliceSource& source) {
    Json context = Json::object();
    for (const auto& [key, value] : source.context()) {
        context[key] = value;
    }
    return {{"protocol", kProtocol}, {"pid", getpid()}, {"context", std::move(context)}};
}

/// Lists the offers, with the last measured time of an iteration.
Json list(SliceSource& source, const std::map<std::string, double>& lastNs) {
    Json offers = Json::array();
    for (const Offer& offer : source.offers()) {
        const auto last = lastNs.find(offer.name);
        offers.push_back({{"name", offer.name},
                          {"full", offer.full},
                          {"pass", orNull(offer.pass)},
                          {"once", offer.once},
                          {"step", orNull(offer.step)},
                          {"ns", last == lastNs.end() ? Json(nullptr) : Json(last->second)}});
    }
    return {{"benchmarks", std::move(offers)}};
}

Json run(SliceSource& source, std::istringstream& words, std::map<std::string, double>& lastNs) {
    std::string name;
    int64_t iterations = 0;
    if (!(words >> name >> iterations) || iterations <= 0) {
        throw std::invalid_argument("expected: run NAME ITERATIONS");
    }
    const auto start = Clock::now();
    const Slice slice = source.run(name, iterations);
    const double wall = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    lastNs[name] = slice.realNs / static_cast<double>(slice.iterations);
    return {{"name", name},
            {"iterations", slice.iterations},
            {"real_ns", slice.realNs},
            {"cpu_ns", orNull(slice.cpuNs)},
            {"wall_ns", wall},
            {"setup_ns", slice.setupNs},
            {"left", orNull(slice.left)},
            {"counters", slice.counters}};
}

}  // namespace

int serveSlices(SliceSource& source, std::istream& in, std::ostream& out) {
    std::map<std::string, double> lastNs;
    out << greeting(source).dump() << std::endl;
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string verb;
        words >> verb;
        if (verb == "quit") {
            break;
        }
        Json answer;
        try {
            if (verb == "list") {
                answer = list(source, lastNs);
            } else if (verb == "run") {
                answer = run(source, words, lastNs);
            } else if (verb == "report") {
                answer = {{"report", Json::parse(source.report())}};
            } else {
                throw std::invalid_argument("expected: list, run NAME ITERATIONS, report or quit");
            }
        } catch (const std::exception& error) {
            answer = {{"error", error.what()}};
        }
        out << answer.dump() << std::endl;
    }
    return 0;
}

}  // namespace kv::slices
