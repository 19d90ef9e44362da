#include "load/populate_plan.h"

#include <algorithm>
#include <bit>
#include <string>

#include "load/load_error.h"

namespace kv::load {

namespace {

constexpr Nanos kFirstBackOff = 1'000'000;
constexpr Nanos kLongestBackOff = 64'000'000;
constexpr Nanos kPatience = 60 * kSecond;

}  // namespace

PopulatePlan::PopulatePlan(std::uint64_t items, std::uint64_t startAt, std::uint64_t seed,
                           std::uint32_t batch, std::uint32_t window, LaneRange lanes,
                           const RequestWriter& requests, const ValueSource& values)
    : startAt_(startAt), seed_(seed), batch_(batch), requests_(requests), values_(values) {
    lanes_.resize(lanes.count);
    for (std::size_t i = 0; i < lanes.count; ++i) {
        lanes_[i].cursor = partBegin(items, lanes.first + i, lanes.total);
        lanes_[i].last = partBegin(items, lanes.first + i + 1, lanes.total);
        // A power of two, so that the ring stays one when opaques wrap round.
        lanes_[i].sent.resize(std::bit_ceil(std::size_t{batch} * window));
    }
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
    return {static_cast<std::uint32_t>(std::min<std::uint64_t>(batch_, left(lane))), now};
}

Nanos PopulatePlan::wakeAt(std::size_t lane) const {
    return lanes_[lane].retry.empty() ? kNever : lanes_[lane].notBefore;
}

bool PopulatePlan::finished(std::size_t index) const {
    const Lane& lane = lanes_[index];
    return stopped_ || lane.allowed == 0 || left(lane) == 0;
}

std::size_t PopulatePlan::write(std::size_t index, std::uint8_t* to, std::uint32_t opaque) {
    Lane& lane = lanes_[index];
    std::uint64_t key;
    if (lane.retry.empty()) {
        key = lane.cursor++;
    } else {
        key = lane.retry.back();
        lane.retry.pop_back();
    }
    lane.sent[opaque % lane.sent.size()] = key;
    // The body follows from seed and key alone, so what is stored does not depend on timing.
    Random random(seed_, key);
    std::uint32_t size = values_.minSize();
    if (size != values_.maxSize()) {
        size += static_cast<std::uint32_t>(random.below(values_.maxSize() - size + 1));
    }
    const auto head = requests_.set(to, startAt_ + key, opaque, size);
    values_.write(to + head, size, random.next());
    return head + size;
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
