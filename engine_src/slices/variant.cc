#include "slices/variant.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kv::slices {

namespace {

using Json = nlohmann::json;

constexpr int kProtocol = 1;
constexpr size_t kQuoted = 200;  ///< characters of an invalid answer that a message quotes

template <class Value>
std::optional<Value> optional(const Json& json) {
    return json.is_null() ? std::nullopt : std::optional<Value>(json.get<Value>());
}

double duration(const Json& json) {
    const auto value = json.get<double>();
    if (!std::isfinite(value) || value < 0) {
        throw std::invalid_argument("a time of " + json.dump());
    }
    return value;
}

Offer toOffer(const Json& json) {
    return {.name = json.at("name"),
            .full = json.at("full"),
            .pass = optional<int64_t>(json.at("pass")),
            .once = json.at("once"),
            .step = optional<int64_t>(json.at("step"))};
}

TimedSlice toSlice(const Json& json) {
    TimedSlice slice;
    slice.iterations = json.at("iterations");
    slice.realNs = duration(json.at("real_ns"));
    if (!json.at("cpu_ns").is_null()) {
        slice.cpuNs = duration(json["cpu_ns"]);
    }
    slice.setupNs = duration(json.at("setup_ns"));
    slice.left = optional<int64_t>(json.at("left"));
    slice.counters = json.at("counters").get<std::map<std::string, double>>();
    slice.wallNs = duration(json.at("wall_ns"));
    if (slice.iterations <= 0) {
        throw std::invalid_argument("a slice without iterations");
    }
    return slice;
}

}  // namespace

Variant::Variant(const VariantPlan& plan, std::chrono::nanoseconds timeout,
                 const SignalWatch& signals)
    : name_(plan.name), child_(plan, timeout, signals) {}

void Variant::meet() {
    const Json greeting = receive();
    if (greeting.value("protocol", 0) != kProtocol || !greeting.contains("context")) {
        throw VariantError(name_, "greeted with " + greeting.dump().substr(0, kQuoted));
    }
    context_ = greeting["context"].dump();
    cpus_ = child_.affinity();
}

std::vector<Offer> Variant::list() {
    const Json answer = ask("list");
    try {
        std::vector<Offer> offers;
        for (const Json& offer : answer.at("benchmarks")) {
            offers.push_back(toOffer(offer));
        }
        return offers;
    } catch (const std::exception& error) {
        throw VariantError(name_, std::string("listed no benchmarks: ") + error.what());
    }
}

TimedSlice Variant::run(const std::string& name, int64_t iterations) {
    const Json answer = ask("run " + name + " " + std::to_string(iterations));
    try {
        if (answer.at("name") != name) {
            throw std::invalid_argument("it ran " + answer["name"].dump());
        }
        return toSlice(answer);
    } catch (const std::exception& error) {
        throw VariantError(name_, "no answer to a run of " + name + ": " + error.what());
    }
}

void Variant::report() {
    const Json answer = ask("report");
    if (!answer.contains("report")) {
        throw VariantError(name_, "no report: " + answer.dump().substr(0, kQuoted));
    }
    report_ = answer["report"].dump();
}

nlohmann::ordered_json Variant::json() const {
    using Ordered = nlohmann::ordered_json;
    return {{"name", name_},
            {"pid", child_.pid()},
            {"cpus", cpus_},
            {"context", Ordered::parse(context_)},
            {"report", Ordered::parse(report_)},
            {"stderr", child_.stderrText()}};
}

void Variant::quit() {
    child_.send("quit");
    if (frozen_) {
        child_.thaw();
    }
    child_.expectEnd();
}

void Variant::freeze() {
    child_.freeze();
    frozen_ = true;
}

Json Variant::ask(const std::string& line) {
    child_.send(line);
    if (frozen_) {
        child_.thaw();
        frozen_ = false;
    }
    Json answer = receive();
    if (const auto error = answer.find("error"); error != answer.end()) {
        throw VariantError(
                name_,
                line + ": " + (error->is_string() ? error->get<std::string>() : error->dump()));
    }
    return answer;
}

Json Variant::receive() {
    const std::string line = child_.receive();
    Json answer = Json::parse(line, nullptr, false);
    if (!answer.is_object()) {
        throw VariantError(name_, "sent an invalid answer: " + line.substr(0, kQuoted));
    }
    return answer;
}

}  // namespace kv::slices
