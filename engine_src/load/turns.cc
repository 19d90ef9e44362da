#include "load/turns.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace kv::load {

struct Turns::Seat {
    explicit Seat(std::size_t arms) : exhausted(arms, false), cpu(arms) {}

    ThreadMeter meter;
    // of the slice:
    Nanos ended = 0;
    std::uint64_t ops = 0;
    Nanos cpuBegin = 0;
    Nanos cpuSpent = 0;
    CpuTime usageBegin;
    // so far:
    std::vector<bool> exhausted;  // by arm
    std::optional<Nanos> delayBefore;
    std::optional<Nanos> delay;
    std::vector<CpuTime> cpu;  // by arm, measured slices
    std::optional<CpuTime> measuredBegin;
    CpuTime measuredEnd;
};

void SliceLog::add(const Slice& slice, Nanos firstBegin) {
    start.push_back(slice.begin - firstBegin);
    wall.push_back(slice.wall);
    ops.push_back(slice.ops);
    if (slice.cpu) {
        cpu.push_back(*slice.cpu);
    }
    clientCpu.push_back(slice.clientCpu);
    if (slice.clientDelay) {
        clientDelay.push_back(*slice.clientDelay);
    }
    position.push_back(slice.position);
}

Nanos SliceLog::inTurn() const noexcept {
    return std::accumulate(wall.begin(), wall.end(), Nanos{0});
}

Turns::Turns(Crew& crew, const TurnOptions& options, OpenClock openClock)
    : crew_(crew),
      options_(options),
      openClock_(std::move(openClock)),
      clocks_(options.arms),
      cpuBefore_(options.arms),
      seats_(crew.threads()),
      logs_(options.arms),
      slices_(options.arms),
      order_(options.arms, options.seed) {}

Turns::~Turns() = default;

std::optional<Turns::Turn> Turns::next(std::size_t thread, Done done) {
    const Nanos now = nowNanos();
    auto& place = seats_[thread];
    if (!place) {
        place = std::make_unique<Seat>(options_.arms);
        place->delayBefore = place->meter.runDelay();
    } else {
        place->cpuSpent = ThreadMeter::cpu() - place->cpuBegin;
        settleUsage(*place);
        const auto delay = place->meter.runDelay();
        place->delay = delay && place->delayBefore ? std::optional(*delay - *place->delayBefore)
                                                   : std::nullopt;
        place->delayBefore = delay;
        place->ended = now;
        place->ops = done.ops;
        place->exhausted[turn_.arm] = done.exhausted;
    }
    crew_.inStep([this] { switchOver(); });
    if (over_ || crew_.stop()) {
        return std::nullopt;
    }
    place->usageBegin = threadCpu();
    if (turn_.measured && !place->measuredBegin) {
        place->measuredBegin = place->usageBegin;
    }
    place->cpuBegin = ThreadMeter::cpu();
    return turn_;
}

void Turns::abandon(std::size_t thread) {
    settleUsage(*seats_[thread]);
}

void Turns::settleUsage(Seat& seat) const {
    if (turn_.measured) {
        seat.measuredEnd = threadCpu();
        seat.cpu[turn_.arm] += seat.measuredEnd - seat.usageBegin;
    }
}

void Turns::switchOver() {
    if (crew_.stop() || over_) {
        return;
    }
    if (!started_) {
        start();
    } else {
        closeSlice();
        if (++position_ == options_.arms) {
            closeRound();
        }
    }
    turn_.arm = order_[position_];
    turn_.begin = nowNanos();
}

void Turns::start() {
    started_ = true;
    for (std::size_t arm = 0; arm < options_.arms; ++arm) {
        try {
            clocks_[arm] = openClock_(arm);
        } catch (const LoadError& error) {
            throw ArmFailure(arm, error.what());
        }
        cpuBefore_[arm] = readClock(arm);
    }
    turn_.measured = options_.warmup == 0;
    order_.shuffle();
    firstBegin_ = nowNanos();
}

std::optional<Nanos> Turns::readClock(std::size_t arm) {
    if (clocks_[arm] == nullptr) {
        return std::nullopt;
    }
    try {
        return clocks_[arm]->read();
    } catch (const LoadError& error) {
        throw ArmFailure(arm, error.what());
    }
}

void Turns::closeSlice() {
    const auto arm = turn_.arm;
    Slice slice;
    slice.begin = turn_.begin;
    slice.clientDelay = 0;
    slice.position = position_;
    Nanos ended = turn_.begin;
    for (const auto& seat : seats_) {
        ended = std::max(ended, seat->ended);
        slice.ops += seat->ops;
        slice.clientCpu += seat->cpuSpent;
        slice.clientDelay = slice.clientDelay && seat->delay
                                    ? std::optional(*slice.clientDelay + *seat->delay)
                                    : std::nullopt;
    }
    slice.wall = ended - turn_.begin;
    if (const auto now = readClock(arm)) {
        slice.cpu = *now - *std::exchange(cpuBefore_[arm], now);
    }
    slices_[arm] = slice;
}

void Turns::closeRound() {
    const auto elapsed = slices_[turn_.arm].begin + slices_[turn_.arm].wall - firstBegin_;
    if (turn_.measured) {
        measuredEnd_ = firstBegin_ + elapsed;
        if (logs_.front().rounds() == 0) {
            measuredBegin_ = slices_[order_[0]].begin;
        }
        for (std::size_t arm = 0; arm < options_.arms; ++arm) {
            logs_[arm].add(slices_[arm], measuredBegin_);
        }
    } else {
        ++warmupRounds_;
    }
    const bool exhausted = std::all_of(seats_.begin(), seats_.end(), [](const auto& seat) {
        return std::all_of(seat->exhausted.begin(), seat->exhausted.end(), std::identity{});
    });
    over_ = exhausted || (elapsed >= options_.end && turn_.measured);
    turn_.measured = elapsed >= options_.warmup;
    position_ = 0;
    ++turn_.round;
    order_.shuffle();
}

CpuTime Turns::cpu(std::size_t thread, std::size_t arm) const {
    return seats_[thread] ? seats_[thread]->cpu[arm] : CpuTime{};
}

CpuTime Turns::cpu(std::size_t thread) const {
    const auto& seat = seats_[thread];
    return seat && seat->measuredBegin ? seat->measuredEnd - *seat->measuredBegin : CpuTime{};
}

}  // namespace kv::load
