#include "load/core/slice_schedule.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

namespace kv::load {

struct SliceSchedule::Account {
    explicit Account(std::size_t variants) : exhausted(variants, false), cpu(variants) {}

    ThreadMeter meter;
    // of the slice:
    Nanos ended = 0;
    std::uint64_t ops = 0;
    Nanos cpuBegin = 0;
    Nanos cpuSpent = 0;
    CpuTime usageBegin;
    // so far:
    std::vector<bool> exhausted;  // by variant
    std::optional<Nanos> delayBefore;
    std::optional<Nanos> delay;
    std::vector<CpuTime> cpu;  // by variant, measured slices
    std::optional<CpuTime> measuredBegin;
    CpuTime measuredEnd;
};

namespace {

std::optional<Nanos> difference(std::optional<Nanos> now, std::optional<Nanos> before) {
    return now && before ? std::optional(*now - *before) : std::nullopt;
}

}  // namespace

void SliceLog::add(const SliceFigures& slice, Nanos firstBegin) {
    start.push_back(slice.begin - firstBegin);
    wall.push_back(slice.wall);
    ops.push_back(slice.ops);
    if (slice.cpu) {
        cpu.push_back(*slice.cpu);
    }
    clientCpu.push_back(slice.clientCpu);
    if (slice.ownCpu) {
        ownCpu.push_back(*slice.ownCpu);
    }
    if (slice.foreignCpu) {
        foreignCpu.push_back(*slice.foreignCpu);
    }
    if (slice.clientDelay) {
        clientDelay.push_back(*slice.clientDelay);
    }
    position.push_back(slice.position);
}

Nanos SliceLog::sliceTime() const noexcept {
    return std::accumulate(wall.begin(), wall.end(), Nanos{0});
}

SliceSchedule::SliceSchedule(ThreadTeam& team, const ScheduleOptions& options, OpenClock openClock)
    : team_(team),
      options_(options),
      openClock_(std::move(openClock)),
      clocks_(options.variants),
      readings_(options.variants),
      readingsBefore_(options.variants),
      ownEnd_(options.variants),
      idleCpu_(options.variants),
      accounts_(team.threads()),
      logs_(options.variants),
      figures_(options.variants),
      order_(options.variants, options.seed) {}

SliceSchedule::~SliceSchedule() = default;

std::optional<SliceSchedule::Slice> SliceSchedule::next(std::size_t thread, Done done) {
    const Nanos now = nowNanos();
    auto& place = accounts_[thread];
    if (!place) {
        place = std::make_unique<Account>(options_.variants);
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
        place->exhausted[slice_.variant] = done.exhausted;
    }
    team_.inStep([this] { switchOver(); });
    if (over_ || team_.stop()) {
        return std::nullopt;
    }
    place->usageBegin = threadCpu();
    if (slice_.measured && !place->measuredBegin) {
        place->measuredBegin = place->usageBegin;
    }
    place->cpuBegin = ThreadMeter::cpu();
    return slice_;
}

void SliceSchedule::abandon(std::size_t thread) {
    settleUsage(*accounts_[thread]);
}

void SliceSchedule::settleUsage(Account& account) const {
    if (slice_.measured) {
        account.measuredEnd = threadCpu();
        account.cpu[slice_.variant] += account.measuredEnd - account.usageBegin;
    }
}

void SliceSchedule::switchOver() {
    if (team_.stop() || over_) {
        return;
    }
    if (!started_) {
        start();
    } else {
        closeSlice();
        if (++position_ == options_.variants) {
            closeRound();
        }
    }
    slice_.variant = order_[position_];
    slice_.begin = nowNanos();
}

void SliceSchedule::start() {
    started_ = true;
    for (std::size_t variant = 0; variant < options_.variants; ++variant) {
        try {
            clocks_[variant] = openClock_(variant);
        } catch (const LoadError& error) {
            throw VariantFailure(variant, error.what());
        }
    }
    readClocks();
    for (int half = 0; half < 2 && options_.idle > 0; ++half) {
        const auto begin = nowNanos();
        std::this_thread::sleep_for(std::chrono::nanoseconds(options_.idle / 2));
        readClocks();
        idleTime_ = nowNanos() - begin;
        for (std::size_t variant = 0; variant < options_.variants; ++variant) {
            const auto used = difference(readings_[variant], readingsBefore_[variant]);
            idleCpu_[variant] = half == 0 || !used ? used : std::min(*used, *idleCpu_[variant]);
        }
    }
    ownEnd_ = readings_;
    slice_.measured = options_.warmup == 0;
    order_.shuffle();
    firstBegin_ = nowNanos();
}

/// One reading of all clocks ends a slice and begins the next.
void SliceSchedule::readClocks() {
    std::swap(readings_, readingsBefore_);
    std::size_t variant = 0;
    try {
        for (; variant < options_.variants; ++variant) {
            if (clocks_[variant] != nullptr) {
                clocks_[variant]->ask();
            }
        }
        for (variant = 0; variant < options_.variants; ++variant) {
            if (clocks_[variant] != nullptr) {
                readings_[variant] = clocks_[variant]->read();
            }
        }
    } catch (const LoadError& error) {
        throw VariantFailure(variant, error.what());
    }
}

void SliceSchedule::closeSlice() {
    const auto variant = slice_.variant;
    SliceFigures figures;
    figures.begin = slice_.begin;
    figures.clientDelay = 0;
    figures.position = position_;
    Nanos ended = slice_.begin;
    for (const auto& account : accounts_) {
        ended = std::max(ended, account->ended);
        figures.ops += account->ops;
        figures.clientCpu += account->cpuSpent;
        figures.clientDelay = figures.clientDelay && account->delay
                                      ? std::optional(*figures.clientDelay + *account->delay)
                                      : std::nullopt;
    }
    figures.wall = ended - slice_.begin;
    readClocks();
    figures.cpu =
            difference(readings_[variant], std::exchange(ownEnd_[variant], readings_[variant]));
    figures.ownCpu = difference(readings_[variant], readingsBefore_[variant]);
    figures.foreignCpu = 0;
    for (std::size_t other = 0; other < options_.variants; ++other) {
        const auto used = difference(readings_[other], readingsBefore_[other]);
        if (other != variant) {
            figures.foreignCpu = used && figures.foreignCpu
                                         ? std::optional(*figures.foreignCpu + *used)
                                         : std::nullopt;
        }
    }
    figures_[variant] = figures;
}

void SliceSchedule::closeRound() {
    const auto elapsed =
            figures_[slice_.variant].begin + figures_[slice_.variant].wall - firstBegin_;
    if (slice_.measured) {
        measuredEnd_ = firstBegin_ + elapsed;
        if (logs_.front().rounds() == 0) {
            measuredBegin_ = figures_[order_[0]].begin;
        }
        for (std::size_t variant = 0; variant < options_.variants; ++variant) {
            logs_[variant].add(figures_[variant], measuredBegin_);
        }
    } else {
        ++warmupRounds_;
    }
    const bool exhausted = std::all_of(accounts_.begin(), accounts_.end(), [](const auto& account) {
        return std::all_of(account->exhausted.begin(), account->exhausted.end(), std::identity{});
    });
    over_ = exhausted || (elapsed >= options_.end && slice_.measured);
    slice_.measured = elapsed >= options_.warmup;
    position_ = 0;
    ++slice_.round;
    order_.shuffle();
}

CpuTime SliceSchedule::cpu(std::size_t thread, std::size_t variant) const {
    return accounts_[thread] ? accounts_[thread]->cpu[variant] : CpuTime{};
}

CpuTime SliceSchedule::cpu(std::size_t thread) const {
    const auto& account = accounts_[thread];
    return account && account->measuredBegin ? account->measuredEnd - *account->measuredBegin
                                             : CpuTime{};
}

}  // namespace kv::load
