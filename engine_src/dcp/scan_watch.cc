#include "dcp/scan_watch.h"

#include <algorithm>
#include <utility>

namespace kv::dcp {

namespace {
/// While others wait for a slot, a scan that does not advance is closed after this time.
constexpr TaskTime kIdleWhileOthersWait = std::chrono::seconds(1);
}  // namespace

void ScanWatch::run(const Streams& streams, TaskTime now) {
    memory_ = BucketMemoryGuard::current();
    const NonBucketGuard nobody;
    std::vector<Open> open = closeDue(streams, now);
    closeWhatPinsTooMuch(open);
    Stats stats{.open = source_.slots().taken(), .closed = closed_};
    stats.pinned = stats.open != 0 ? source_.pinned() : 0;
    for (const Open& scan : open) {
        stats.oldest = std::max(stats.oldest, now - scan.opened);
    }
    const std::lock_guard lock(mutex_);
    stats_ = stats;
}

std::vector<ScanWatch::Open> ScanWatch::closeDue(const Streams& streams, TaskTime now) {
    const TaskTime mostIdle =
            source_.slots().wasRefused()
                    ? std::min<TaskTime>(kIdleWhileOthersWait,
                                         std::chrono::seconds(limits_.idleSeconds))
                    : std::chrono::seconds(limits_.idleSeconds);
    const TaskTime mostAge = std::chrono::seconds(limits_.ageSeconds);
    std::unordered_map<uint64_t, Seen> seen;
    std::vector<Open> open;
    for (const auto& stream : streams) {
        const auto sight = stream->scanSight();
        if (sight.number == 0) {
            continue;
        }
        const auto known = seen_.find(sight.number);
        Seen it = known != seen_.end() ? known->second : Seen{now, now, sight.reads};
        if (it.reads != sight.reads) {
            it.reads = sight.reads;
            it.moved = now;
        }
        const bool due = sight.useless || now - it.moved >= mostIdle || now - it.opened >= mostAge;
        if (due && close(*stream)) {
            continue;
        }
        seen.emplace(sight.number, it);
        open.push_back({&stream, it.opened});
    }
    seen_ = std::move(seen);
    return open;
}

void ScanWatch::closeWhatPinsTooMuch(std::vector<Open>& open) {
    if (open.empty() || source_.pinned() <= source_.mostPinned()) {
        return;
    }
    std::stable_sort(open.begin(), open.end(),
                     [](const Open& a, const Open& b) { return a.opened < b.opened; });
    std::erase_if(open, [this](const Open& scan) {
        return source_.pinned() > source_.mostPinned() && close(**scan.stream);
    });
}

bool ScanWatch::close(ActiveStream& stream) {
    const BucketMemoryGuard guard(memory_);
    const bool closed = stream.giveScanBack();
    closed_ += closed ? 1U : 0U;
    return closed;
}

ScanWatch::Stats ScanWatch::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

}  // namespace kv::dcp
