#include "slices/plan.h"

#include <sched.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace kv::slices {

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
    throw std::invalid_argument("plan: " + key + ": " + why);
}

void onlyKeys(const Json& object, const std::string& where, const std::set<std::string>& known) {
    if (!object.is_object()) {
        refuse(where, "expected an object");
    }
    for (const auto& [key, value] : object.items()) {
        if (!known.contains(key)) {
            refuse(std::string(where).append(".").append(key), "unknown key");
        }
    }
}

template <class Value>
Value get(const Json& object, const std::string& where, const std::string& key) {
    const auto found = object.find(key);
    if (found == object.end()) {
        refuse(where + "." + key, "missing");
    }
    try {
        return found->get<Value>();
    } catch (const Json::exception& error) {
        refuse(where + "." + key, error.what());
    }
}

template <class Value>
Value getOr(const Json& plan, const std::string& key, Value otherwise) {
    return plan.contains(key) ? get<Value>(plan, "$", key) : otherwise;
}

/// `factor` is nanoseconds per unit; the value must be > 0, or 0 if that is allowed.
std::chrono::nanoseconds duration(const Json& plan, const std::string& key, double factor,
                                  std::chrono::nanoseconds otherwise, bool zero = false) {
    const double value = getOr<double>(plan, key, static_cast<double>(otherwise.count()) / factor);
    const double ns = value * factor;
    if (!std::isfinite(ns) || ns > 1e17 || ns < (zero ? 0.0 : 1.0)) {
        refuse("$." + key, "expected a time within range");
    }
    return std::chrono::nanoseconds(std::llround(ns));
}

VariantPlan parseVariant(const Json& json, const std::string& where) {
    onlyKeys(json, where, {"name", "argv", "env", "cpus"});
    VariantPlan variant;
    variant.name = get<std::string>(json, where, "name");
    variant.argv = get<std::vector<std::string>>(json, where, "argv");
    if (variant.argv.empty() || variant.argv.front().find('/') == std::string::npos) {
        refuse(where + ".argv", "expected a program's path and its arguments");
    }
    const auto environment = get<std::map<std::string, std::string>>(json, where, "env");
    for (const auto& [key, value] : environment) {
        variant.env.push_back(std::string(key).append("=").append(value));
    }
    if (json.contains("cpus") && !json["cpus"].is_null()) {
        variant.cpus = get<std::vector<size_t>>(json, where, "cpus");
        if (variant.cpus->empty()) {
            refuse(where + ".cpus",
                   "expected at least one CPU; null uses the CPUs of the conductor");
        }
        for (const size_t cpu : *variant.cpus) {
            if (cpu >= CPU_SETSIZE) {
                refuse(where + ".cpus", std::to_string(cpu) + " is too large");
            }
        }
    }
    return variant;
}

}  // namespace

Plan parsePlan(const std::string& text) {
    Json json;
    try {
        json = Json::parse(text);
    } catch (const Json::exception& error) {
        throw std::invalid_argument(std::string("plan: ") + error.what());
    }
    onlyKeys(json, "$",
             {"variants", "filter", "slice_ms", "min_seconds", "min_rounds", "seed", "freeze",
              "timeout_s"});
    Plan plan;
    const auto variants = get<std::vector<Json>>(json, "$", "variants");
    if (variants.empty()) {
        refuse("$.variants", "expected at least one variant");
    }
    std::set<std::string> names;
    for (size_t i = 0; i < variants.size(); ++i) {
        const auto where = "$.variants[" + std::to_string(i) + "]";
        plan.variants.push_back(parseVariant(variants[i], where));
        if (!names.insert(plan.variants.back().name).second) {
            refuse(where + ".name", "an earlier variant has this name");
        }
    }
    plan.filter = getOr<std::string>(json, "filter", plan.filter);
    try {
        const Filter understood(plan.filter);
    } catch (const std::invalid_argument& error) {
        refuse("$.filter", error.what());
    }
    plan.slice = duration(json, "slice_ms", 1e6, plan.slice);
    plan.atLeast = duration(json, "min_seconds", 1e9, plan.atLeast, true);
    plan.minRounds = getOr<size_t>(json, "min_rounds", plan.minRounds);
    if (plan.minRounds == 0) {
        refuse("$.min_rounds", "expected at least 1");
    }
    plan.seed = getOr<uint64_t>(json, "seed", plan.seed);
    plan.freeze = getOr<bool>(json, "freeze", plan.freeze);
    plan.timeout = duration(json, "timeout_s", 1e9, plan.timeout);
    return plan;
}

void Filter::Free::operator()(regex_t* regex) const {
    regfree(regex);
    std::default_delete<regex_t>()(regex);
}

Filter::Filter(const std::string& expression) : negative_(expression.starts_with('-')) {
    auto regex = std::make_unique<regex_t>();
    const char* pattern = expression.c_str() + (negative_ ? 1 : 0);
    if (const int error = regcomp(regex.get(), pattern, REG_EXTENDED | REG_NOSUB); error != 0) {
        std::array<char, 200> why{};
        regerror(error, regex.get(), why.data(), why.size());
        throw std::invalid_argument(why.data());
    }
    regex_.reset(regex.release());
}

bool Filter::takes(const std::string& full) const {
    return (regexec(regex_.get(), full.c_str(), 0, nullptr, 0) == 0) != negative_;
}

}  // namespace kv::slices
