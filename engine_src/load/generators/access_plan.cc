#include "load/generators/access_plan.h"

#include <algorithm>
#include <cmath>

namespace kv::load {

AccessPlan::AccessPlan(const AccessOptions& options, LaneRange lanes, const ValueSource& values)
    : options_(options), values_(values), cyclesLeft_(options.maxCycles) {
    // A coin has 32 bits, so that "100 %" is a bound that no coin reaches.
    setBelow_ = static_cast<std::uint64_t>(std::llround(options.setPercent / 100.0 * 0x1p32));
    if (options.rate > 0) {
        interval_ = nanos(static_cast<double>(options.batch) * static_cast<double>(lanes.total) /
                          options.rate);
        interval_ = std::max<Nanos>(interval_, 1);
    }
    for (std::size_t i = 0; i < lanes.count; ++i) {
        const auto global = lanes.first + i;
        const bool limited = options.maxOps != std::numeric_limits<std::uint64_t>::max();
        Lane lane{Random(options.seed, options.sharedSequence ? 0 : global),
                  limited ? partBegin(options.maxOps, global + 1, lanes.total) -
                                    partBegin(options.maxOps, global, lanes.total)
                          : options.maxOps,
                  0, partBegin(options.items, global, lanes.total),
                  partBegin(options.items, global + 1, lanes.total),
                  // lanes alternate, so that a rate is even
                  interval_ * static_cast<Nanos>(global) / static_cast<Nanos>(lanes.total)};
        if (options.sharedSequence || lane.first == lane.last) {
            lane.first = 0;
            lane.last = options.items;
        }
        lane.cursor = lane.first;
        lanes_.push_back(lane);
    }
}

void AccessPlan::begin(Nanos from, Nanos until) {
    for (auto& lane : lanes_) {
        lane.due += from - until_;
        lane.ended = false;
    }
    until_ = until;
    begun_ = false;
}

bool AccessPlan::exhausted() const {
    return cyclesLeft_ == 0 || std::all_of(lanes_.begin(), lanes_.end(),
                                           [](const Lane& lane) { return lane.opsLeft == 0; });
}

bool AccessPlan::finished(std::size_t lane) const {
    return stopped_ || lanes_[lane].ended || lanes_[lane].opsLeft == 0 || cyclesLeft_ == 0;
}

AccessPlan::Start AccessPlan::next(std::size_t index, Nanos now) {
    Lane& lane = lanes_[index];
    // A slice lasts until its end even if nothing more is due in it: the rate is met over slices.
    lane.ended = lane.ended || (now >= until_ && (begun_ || interval_ != 0));
    if (finished(index) || (interval_ != 0 && lane.due > now)) {
        return {};
    }
    Nanos at = now;
    if (interval_ != 0) {
        at = lane.due;
        lane.due += interval_;
    }
    const auto ops =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.batch, lane.opsLeft));
    lane.opsLeft -= ops;
    begun_ = true;
    --cyclesLeft_;
    return {ops, at};
}

Nanos AccessPlan::wakeAt(std::size_t lane) const {
    // Without a rate a batch follows only from answers, but the slice's end also ends an idle lane.
    return interval_ != 0 ? std::min(lanes_[lane].due, until_) : until_;
}

Operation AccessPlan::operation(std::size_t index, std::uint32_t /*opaque*/) {
    Lane& lane = lanes_[index];
    std::uint64_t key;
    if (options_.sequential) {
        key = lane.cursor;
        lane.cursor = lane.cursor + 1 == lane.last ? lane.first : lane.cursor + 1;
    } else {
        key = lane.random.below(options_.items);
    }
    key += options_.startAt;
    const auto word = lane.random.next();
    if (!isSet(key, word >> 32U)) {
        return {.number = key};
    }
    const auto size = values_.drawSize(lane.random);
    // The coin used the word's upper half; the body must not follow from it.
    return {OpKind::kSet, key, size, ValueSource::wordFor(key, Random::mix(word))};
}

std::uint64_t AccessPlan::overdue(Nanos end) const {
    std::uint64_t ops = 0;
    if (interval_ != 0) {
        for (const auto& lane : lanes_) {
            const auto until = std::min(end, until_);
            if (until > lane.due) {
                const auto batches =
                        static_cast<std::uint64_t>((until - 1 - lane.due) / interval_ + 1);
                ops += std::min(batches * options_.batch, lane.opsLeft);
            }
        }
    }
    return ops;
}

}  // namespace kv::load
