#include "load/core/recorder.h"

#include <algorithm>
#include <utility>

namespace kv::load {

void Errors::count(protocol::Status status) noexcept {
    switch (status) {
        case protocol::Status::kEtmpfail:
            ++etmpfail;
            return;
        case protocol::Status::kEnomem:
            ++enomem;
            return;
        case protocol::Status::kNotMyVbucket:
            ++notMyVbucket;
            return;
        default:
            ++other;
    }
}

void Errors::add(const Errors& more) noexcept {
    etmpfail += more.etmpfail;
    enomem += more.enomem;
    notMyVbucket += more.notMyVbucket;
    timeout += more.timeout;
    other += more.other;
}

void OpCounts::add(const OpCounts& other) noexcept {
    gets += other.gets;
    sets += other.sets;
    deletes += other.deletes;
    hits += other.hits;
    misses += other.misses;
    verified += other.verified;
    errors.add(other.errors);
}

Recorder::Recorder(Nanos start, Nanos ramp, std::atomic<std::uint64_t>* live)
    : start_(start), rampEnd_(start + ramp), end_(start), live_(live) {
    series_.reserve(3600);
}

void Recorder::add(Nanos now, const OpCounts& opCounts) {
    total_.add(opCounts);
    const auto second = static_cast<std::size_t>(std::max<Nanos>(now - start_, 0) / kSecond);
    if (second >= series_.size()) {
        series_.resize(second + 1);
    }
    auto& point = series_[second];
    point.gets += opCounts.gets;
    point.sets += opCounts.sets;
    point.misses += opCounts.misses;
    point.errors += opCounts.errors.total();
    end_ = std::max(end_, now);
    if (live_ != nullptr) {
        live_->fetch_add(opCounts.ops(), std::memory_order_relaxed);
    }
}

OpCounts Recorder::restart(Nanos start, Nanos ramp) noexcept {
    start_ = end_ = start;
    rampEnd_ = start + ramp;
    series_.clear();
    gets_.clear();
    sets_.clear();
    return std::exchange(total_, {});
}

void Recorder::merge(const Recorder& other) {
    total_.add(other.total_);
    refused(other.refusal_);
    series_.resize(std::max(series_.size(), other.series_.size()));
    for (std::size_t i = 0; i < other.series_.size(); ++i) {
        series_[i].gets += other.series_[i].gets;
        series_[i].sets += other.series_[i].sets;
        series_[i].misses += other.series_[i].misses;
        series_[i].errors += other.series_[i].errors;
    }
    gets_.merge(other.gets_);
    sets_.merge(other.sets_);
    if (start_ == 0 || (other.start_ != 0 && other.start_ < start_)) {
        start_ = other.start_;
    }
    end_ = std::max(end_, other.end_);
}

}  // namespace kv::load
