#include "slices/conductor.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "slices/filter.h"
#include "slices/rounds.h"

namespace kv::slices {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

double seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// The first one's name and how many there are, for one whose filter took none.
std::string briefly(const std::vector<Offer>& offers) {
    if (offers.empty()) {
        return "none";
    }
    const auto more = offers.size() - 1;
    return offers.front().full + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

Json planJson(const Plan& plan) {
    return {{"filter", plan.filter},
            {"slice_ms", seconds(plan.slice) * 1e3},
            {"min_seconds", seconds(plan.atLeast)},
            {"min_rounds", plan.minRounds},
            {"seed", plan.seed},
            {"freeze", plan.freeze}};
}

Json slicesJson(const ArmSlices& own) {
    const auto column = [&](auto field) {
        Json values = Json::array();
        for (const TimedSlice& slice : own.slices) {
            values.push_back(field(slice));
        }
        return values;
    };
    const TimedSlice& first = own.slices.front();
    Json counters = Json::object();
    for (const auto& [name, value] : first.counters) {
        counters[name] =
                column([&key = name](const TimedSlice& slice) { return slice.counters.at(key); });
    }
    return {{"iterations", column([](const TimedSlice& slice) { return slice.iterations; })},
            {"real_ns", column([](const TimedSlice& slice) { return slice.realNs; })},
            {"cpu_ns", first.cpuNs
                               ? column([](const TimedSlice& slice) { return slice.cpuNs.value(); })
                               : Json(nullptr)},
            {"wall_ns", column([](const TimedSlice& slice) { return slice.wallNs; })},
            {"setup_ns", column([](const TimedSlice& slice) { return slice.setupNs; })},
            {"counters", std::move(counters)},
            {"position", own.positions}};
}

Json roundsJson(const BenchmarkRounds& rounds) {
    Json arms = Json::array();
    for (const ArmSlices& own : rounds.arms) {
        arms.push_back(slicesJson(own));
    }
    return {{"name", rounds.offer.name},
            {"full", rounds.offer.full},
            {"pass", rounds.offer.pass ? Json(*rounds.offer.pass) : Json(nullptr)},
            {"warm_up", rounds.warmUp},
            {"rounds", rounds.arms.front().slices.size()},
            {"arms", std::move(arms)}};
}

class Conductor {
  public:
    explicit Conductor(const Plan& plan) : plan_(plan), filter_(plan.filter), random_(plan.seed) {}

    Outcome run() {
        Outcome outcome;
        Json failedArm;
        try {
            perform();
        } catch (const ArmError& error) {
            failedArm = error.arm();
            outcome.failure = error.what();
        } catch (const Interrupted& error) {
            outcome.failure = error.what();
            outcome.signal = error.signal();
        }
        Json arms = Json::array();
        for (const auto& arm : arms_) {
            arms.push_back(arm->json());
        }
        arms_.clear();
        const Json document{
                {"tool", "conductor"},
                {"schema", kSchema},
                {"failure", outcome.failure.empty() ? Json(nullptr) : Json(outcome.failure)},
                {"failed_arm", std::move(failedArm)},
                {"plan", planJson(plan_)},
                {"arms", std::move(arms)},
                {"benchmarks", std::move(benchmarks_)}};
        // A program may print what is no UTF-8.
        outcome.document = document.dump(-1, ' ', false, Json::error_handler_t::replace);
        return outcome;
    }

  private:
    void perform() {
        for (const ArmPlan& plan : plan_.arms) {
            arms_.push_back(std::make_unique<Arm>(plan, plan_.timeout, signals_));
            arms_.back()->meet();
            rest(*arms_.back());
        }
        std::vector<Arm*> arms;
        for (const auto& arm : arms_) {
            arms.push_back(arm.get());
        }
        for (const Offer& offer : chosen()) {
            benchmarks_.push_back(roundsJson(runRounds(plan_, offer, arms, random_())));
        }
        for (Arm* arm : arms) {
            arm->report();
            rest(*arm);
        }
        for (Arm* arm : arms) {
            arm->quit();
        }
    }

    void rest(Arm& arm) const {
        if (plan_.freeze) {
            arm.freeze();
        }
    }

    /// What the filter takes, in the first arm's order; all arms have it.
    std::vector<Offer> chosen() {
        std::vector<Offer> first;
        for (const auto& arm : arms_) {
            std::vector<Offer> own = taken(*arm);
            if (first.empty()) {
                first = std::move(own);
            } else if (own != first) {
                throw ArmError(arm->name(), "has other benchmarks than " + arms_.front()->name());
            }
        }
        return first;
    }

    /// Of one arm; not empty.
    std::vector<Offer> taken(Arm& arm) const {
        const std::vector<Offer> all = arm.list();
        rest(arm);
        std::vector<Offer> own;
        std::copy_if(all.begin(), all.end(), std::back_inserter(own),
                     [&](const Offer& offer) { return filter_.takes(offer.full); });
        if (own.empty()) {
            throw ArmError(arm.name(), "has no benchmark that " + plan_.filter + " takes; it has " +
                                               briefly(all));
        }
        return own;
    }

    const Plan& plan_;
    Filter filter_;
    std::mt19937_64 random_;
    SignalWatch signals_;
    std::vector<std::unique_ptr<Arm>> arms_;
    Json benchmarks_ = Json::array();
};

}  // namespace

Outcome conduct(const Plan& plan) {
    return Conductor(plan).run();
}

}  // namespace kv::slices
