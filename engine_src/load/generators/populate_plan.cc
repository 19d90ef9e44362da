#include "load/generators/populate_plan.h"

#include <algorithm>
#include <bit>
#include <string>

#include "load/core/load_error.h"

namespace kv::load {

namespace {

constexpr Nanos kFirstBackOff = 1'000'000;
constexpr Nanos kLongestBackOff = 64'000'000;
constexpr Nanos kPatience = 60 * kSecond;

}  // namespace

PopulatePlan::PopulatePlan(const PopulateOptions& options, LaneRange lanes,
                           const ValueSource& values)
    : options_(options), values_(values) {
    lanes_.resize(lanes.count);
    for (std::size_t i = 0; i < lanes.count; ++i) {
        Lane& lane = lanes_[i];
        lane.cursor = partBegin(options.items, lanes.first + i, lanes.total);
        const auto last = partBegin(options.items, lanes.first + i + 1, lanes.total);
        for (auto key = lane.cursor; key != last; ++key) {
            if (chosen(key)) {
                ++lane.pending;
            }
        }
        // A power of two, so that the ring continues correctly when opaques wrap round.
        lane.sent.resize(std::bit_ceil(std::size_t{options.batch} * options.window));
    }
}

bool PopulatePlan::chosen(std::uint64_t key) const noexcept {
    return KeyDraw{options_.seed, options_.share}.takes(options_.startAt + key, options_.draw);
}

void PopulatePlan::begin(std::uint32_t batches) {
    for (auto& lane : lanes_) {
        lane.allowed = batches;
    }
}

bool PopulatePlan::exhausted() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return left(lane) == 0; });
}

PopulatePlan::Start PopulatePlan::next(std::size_t index, Nanos now) {
    Lane& lane = lanes_[index];
    if (finished(index) || now < lane.notBefore) {
        return {};
    }
    --lane.allowed;
    return {static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.batch, left(lane))), now};
}

Nanos PopulatePlan::wakeAt(std::size_t lane) const {
    // Keys that were never sent wait as well: a batch that was written in parts can have taken all
    // refused ones, and no answer may be due.
    return left(lanes_[lane]) == 0 ? kNever : lanes_[lane].notBefore;
}

bool PopulatePlan::finished(std::size_t index) const {
    const Lane& lane = lanes_[index];
    return stopped_ || lane.allowed == 0 || left(lane) == 0;
}

Operation PopulatePlan::operation(std::size_t index, std::uint32_t opaque) {
    Lane& lane = lanes_[index];
    std::uint64_t key;
    if (lane.retry.empty()) {
        while (!chosen(lane.cursor)) {
            ++lane.cursor;
        }
        key = lane.cursor++;
        --lane.pending;
    } else {
        key = lane.retry.back();
        lane.retry.pop_back();
    }
    lane.sent[opaque % lane.sent.size()] = key;
    const auto number = options_.startAt + key;
    if (options_.remove) {
        return {.kind = OpKind::kDelete, .number = number};
    }
    // The body follows from seed and key alone, so what is stored does not depend on timing.
    Random random(options_.seed, key);
    const auto size = values_.drawSize(random);
    return {OpKind::kSet, number, size, ValueSource::wordFor(number, random.next())};
}

void PopulatePlan::answered(std::size_t index, std::uint32_t opaque, protocol::Status status,
                            Nanos now) {
    Lane& lane = lanes_[index];
    lastStored_ = lastStored_ == 0 ? now : lastStored_;
    if (status == protocol::Status::kSuccess) [[likely]] {
        ++stored_;
        lastStored_ = now;
        lane.backOff = 0;
        return;
    }
    if (status != protocol::Status::kEtmpfail) {
        return;  // counted as an error; sending it again would not help
    }
    if (now - lastStored_ > kPatience) {
        throw LoadError("populate: the server has refused every store for " +
                        std::to_string(kPatience / kSecond) + " s (temporary failure)");
    }
    lane.retry.push_back(lane.sent[opaque % lane.sent.size()]);
    if (lane.notBefore < now) {  // once for each read, not for each refusal in it
        lane.backOff = std::clamp(2 * lane.backOff, kFirstBackOff, kLongestBackOff);
        lane.notBefore = now + lane.backOff;
    }
}

}  // namespace kv::load
