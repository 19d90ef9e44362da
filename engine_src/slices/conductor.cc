#include "slices/conductor.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "slices/rounds.h"

namespace kv::slices {

namespace {

using Ordered = nlohmann::ordered_json;

constexpr int kSchema = 1;

double seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// Returns the name of the first offer and their number, for an error about a filter that selects
/// none.
std::string briefly(const std::vector<Offer>& offers) {
    if (offers.empty()) {
        return "none";
    }
    const auto more = offers.size() - 1;
    return offers.front().full + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

Ordered planJson(const Plan& plan) {
    return {{"filter", plan.filter},
            {"slice_ms", seconds(plan.slice) * 1e3},
            {"min_seconds", seconds(plan.atLeast)},
            {"min_rounds", plan.minRounds},
            {"seed", plan.seed},
            {"freeze", plan.freeze}};
}

Ordered slicesJson(const VariantSlices& own) {
    const auto column = [&](auto field) {
        Ordered values = Ordered::array();
        for (const TimedSlice& slice : own.slices) {
            values.push_back(field(slice));
        }
        return values;
    };
    const TimedSlice& first = own.slices.front();
    Ordered counters = Ordered::object();
    for (const auto& [name, value] : first.counters) {
        counters[name] =
                column([&key = name](const TimedSlice& slice) { return slice.counters.at(key); });
    }
    return {{"iterations", column([](const TimedSlice& slice) { return slice.iterations; })},
            {"real_ns", column([](const TimedSlice& slice) { return slice.realNs; })},
            {"cpu_ns", first.cpuNs
                               ? column([](const TimedSlice& slice) { return slice.cpuNs.value(); })
                               : Ordered(nullptr)},
            {"wall_ns", column([](const TimedSlice& slice) { return slice.wallNs; })},
            {"setup_ns", column([](const TimedSlice& slice) { return slice.setupNs; })},
            {"counters", std::move(counters)},
            {"position", own.positions}};
}

Ordered roundsJson(const BenchmarkRounds& rounds) {
    Ordered variants = Ordered::array();
    for (const VariantSlices& own : rounds.variants) {
        variants.push_back(slicesJson(own));
    }
    return {{"name", rounds.offer.name},
            {"full", rounds.offer.full},
            {"pass", rounds.offer.pass ? Ordered(*rounds.offer.pass) : Ordered(nullptr)},
            {"warm_up", rounds.warmUp},
            {"rounds", rounds.variants.front().slices.size()},
            {"variants", std::move(variants)}};
}

class Conductor {
  public:
    explicit Conductor(const Plan& plan) : plan_(plan), filter_(plan.filter), random_(plan.seed) {}

    Outcome run() {
        Outcome outcome;
        Ordered failedVariant;
        try {
            perform();
        } catch (const VariantError& error) {
            failedVariant = error.variant();
            outcome.failure = error.what();
        } catch (const Interrupted& error) {
            outcome.failure = error.what();
            outcome.signal = error.signal();
        }
        Ordered variants = Ordered::array();
        for (const auto& variant : variants_) {
            variants.push_back(variant->json());
        }
        variants_.clear();
        const Ordered document{
                {"tool", "conductor"},
                {"schema", kSchema},
                {"failure", outcome.failure.empty() ? Ordered(nullptr) : Ordered(outcome.failure)},
                {"failed_variant", std::move(failedVariant)},
                {"plan", planJson(plan_)},
                {"variants", std::move(variants)},
                {"benchmarks", std::move(benchmarks_)}};
        // A program may print invalid UTF-8.
        outcome.document = document.dump(-1, ' ', false, Ordered::error_handler_t::replace);
        return outcome;
    }

  private:
    void perform() {
        for (const VariantPlan& plan : plan_.variants) {
            variants_.push_back(std::make_unique<Variant>(plan, plan_.timeout, signals_));
            variants_.back()->meet();
            rest(*variants_.back());
        }
        std::vector<Variant*> variants;
        for (const auto& variant : variants_) {
            variants.push_back(variant.get());
        }
        for (const Offer& offer : chosen()) {
            benchmarks_.push_back(roundsJson(runRounds(plan_, offer, variants, random_())));
        }
        for (Variant* variant : variants) {
            variant->report();
            rest(*variant);
        }
        for (Variant* variant : variants) {
            variant->quit();
        }
    }

    void rest(Variant& variant) const {
        if (plan_.freeze) {
            variant.freeze();
        }
    }

    /// Returns the offers that the filter selects, in the first variant's order; all variants must
    /// have them.
    std::vector<Offer> chosen() {
        std::vector<Offer> first;
        for (const auto& variant : variants_) {
            std::vector<Offer> own = taken(*variant);
            if (first.empty()) {
                first = std::move(own);
            } else if (own != first) {
                throw VariantError(variant->name(), "does not have the same benchmarks as " +
                                                            variants_.front()->name());
            }
        }
        return first;
    }

    /// Returns the selected offers of one variant; not empty.
    std::vector<Offer> taken(Variant& variant) const {
        const std::vector<Offer> all = variant.list();
        rest(variant);
        std::vector<Offer> own;
        std::copy_if(all.begin(), all.end(), std::back_inserter(own),
                     [&](const Offer& offer) { return filter_.takes(offer.full); });
        if (own.empty()) {
            throw VariantError(variant.name(), "has no benchmark that matches " + plan_.filter +
                                                       "; it has " + briefly(all));
        }
        return own;
    }

    const Plan& plan_;
    Filter filter_;
    std::mt19937_64 random_;
    SignalWatch signals_;
    std::vector<std::unique_ptr<Variant>> variants_;
    Ordered benchmarks_ = Ordered::array();
};

}  // namespace

Outcome conduct(const Plan& plan) {
    return Conductor(plan).run();
}

}  // namespace kv::slices
