#include "slices/rounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace kv::slices {

namespace {

constexpr double kGrowth = 10;  ///< for a size that is far too small, in one step
/// Per pass: the overhead of slices must not dominate on a busy machine.
constexpr int64_t kMostSlices = 1000;

/// Fisher and Yates, written out: the order of std::shuffle depends on the library, and a seed must
/// give the same order everywhere.
void shuffle(std::vector<size_t>& order, std::mt19937_64& random) {
    for (size_t left = order.size(); left > 1; --left) {
        std::swap(order[left - 1], order[random() % left]);
    }
}

class Rounds {
  public:
    Rounds(const Plan& plan, const Offer& offer, std::vector<Variant*> variants, uint64_t seed)
        : plan_(plan),
          offer_(offer),
          variants_(std::move(variants)),
          seed_(seed),
          random_(seed),
          sizes_(offer.pass ? 1 : variants_.size(),
                 SliceSize(static_cast<double>(plan.slice.count()))),
          order_(variants_.size()),
          left_(offer.pass.value_or(0)) {
        std::iota(order_.begin(), order_.end(), size_t{0});
        result_.offer = offer;
        result_.variants.resize(variants_.size());
    }

    BenchmarkRounds run() {
        do {
            round();
        } while (!warm());
        // Without passes the rounds so far were too short, except a first one that is long enough.
        const bool good = offer_.pass || rounds() == 1;
        if (!offer_.once && !(good && filled())) {
            result_.warmUp = rounds();
            result_.variants.assign(variants_.size(), {});
            // The measured rounds begin with the same orders, however many rounds the warm-up took.
            random_.seed(seed_);
            std::iota(order_.begin(), order_.end(), size_t{0});
        }
        while (!complete()) {
            round();
        }
        return std::move(result_);
    }

  private:
    void round() {
        shuffle(order_, random_);
        std::vector<int64_t> asked(variants_.size());
        std::vector<TimedSlice> slices(variants_.size());
        for (const size_t variant : order_) {
            asked[variant] = iterations(variant);
            slices[variant] = variants_[variant]->run(offer_.name, asked[variant]);
            if (plan_.freeze) {
                variants_[variant]->freeze();
            }
        }
        check(slices);
        learn(asked, slices);
        for (size_t position = 0; position < order_.size(); ++position) {
            VariantSlices& own = result_.variants[order_[position]];
            own.slices.push_back(std::move(slices[order_[position]]));
            own.positions.push_back(position);
        }
    }

    /// With passes: the rest is divided evenly among the slices it will take.
    int64_t iterations(size_t variant) const {
        if (!offer_.pass) {
            return offer_.step.value_or(sizes_[variant].iterations());
        }
        const auto least = std::max<int64_t>(1, *offer_.pass / kMostSlices);
        const auto wanted = static_cast<double>(
                offer_.step.value_or(std::max(least, sizes_.front().iterations())));
        const auto left = static_cast<double>(left_);
        return static_cast<int64_t>(std::ceil(left / std::max(1.0, std::round(left / wanted))));
    }

    /// With passes: every variant must be at the same place of the pass.
    void check(const std::vector<TimedSlice>& slices) {
        if (!offer_.pass) {
            return;
        }
        for (size_t variant = 0; variant < variants_.size(); ++variant) {
            if (!slices[variant].left || slices[variant].left != slices.front().left) {
                throw VariantError(variants_[variant]->name(), "is out of step in " + offer_.name);
            }
        }
        left_ = *slices.front().left == 0 ? *offer_.pass : *slices.front().left;
    }

    /// Learns from the requested number: a run counts the iterations of all its threads.
    void learn(const std::vector<int64_t>& asked, const std::vector<TimedSlice>& slices) {
        double longest = 0;
        for (size_t variant = 0; variant < variants_.size(); ++variant) {
            const double ns = slices[variant].wallNs - slices[variant].setupNs;
            longest = std::max(longest, ns);
            if (!offer_.pass) {
                sizes_[variant].learn(asked[variant], ns);
            }
        }
        if (offer_.pass) {
            sizes_.front().learn(asked.front(), longest);
        }
    }

    /// True if the first pass is over, or the sizes have settled.
    bool warm() const {
        if (offer_.pass) {
            return left_ == *offer_.pass;
        }
        return offer_.step || std::all_of(sizes_.begin(), sizes_.end(),
                                          [](const SliceSize& size) { return size.settled(); });
    }

    /// True if every variant has had its time and the plan its rounds.
    bool filled() const {
        const auto wanted = static_cast<double>(plan_.atLeast.count());
        return rounds() >= plan_.minRounds &&
               std::all_of(result_.variants.begin(), result_.variants.end(),
                           [&](const VariantSlices& own) {
                               double sum = 0;
                               for (const TimedSlice& slice : own.slices) {
                                   sum += slice.wallNs;
                               }
                               return sum >= wanted;
                           });
    }

    bool complete() const {
        if (!offer_.pass) {
            return filled();
        }
        const bool whole = rounds() != 0 && left_ == *offer_.pass;
        return whole && (offer_.once || filled());
    }

    size_t rounds() const { return result_.variants.front().slices.size(); }

    const Plan& plan_;
    const Offer& offer_;
    std::vector<Variant*> variants_;
    uint64_t seed_;
    std::mt19937_64 random_;
    std::vector<SliceSize> sizes_;  ///< one for all variants if they run in step
    std::vector<size_t> order_;
    int64_t left_;  ///< iterations to the end of the current pass
    BenchmarkRounds result_;
};

}  // namespace

int64_t SliceSize::iterations() const {
    return std::max<int64_t>(1, std::llround(size_));
}

void SliceSize::learn(int64_t iterations, double ns) {
    const double ideal = static_cast<double>(iterations) * wantedNs_ / std::max(1.0, ns);
    if (!settled_) {
        settled_ = ns >= wantedNs_ / 2;
        size_ = std::clamp(ideal, 1.0, static_cast<double>(iterations) * kGrowth);
    } else {
        size_ = std::max(1.0, std::clamp(std::sqrt(size_ * ideal), size_ / 4, size_ * 4));
    }
}

BenchmarkRounds runRounds(const Plan& plan, const Offer& offer, std::vector<Variant*> variants,
                          uint64_t seed) {
    return Rounds(plan, offer, std::move(variants), seed).run();
}

}  // namespace kv::slices
