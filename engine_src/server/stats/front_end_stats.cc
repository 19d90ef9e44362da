#include "server/stats/front_end_stats.h"

#include <memory>

#include "memory/bucket_memory.h"

namespace kv::server {

FrontEndStats::~FrontEndStats() {
    for (auto& timing : timings_) {
        std::unique_ptr<LatencyHistogram>(timing.load()).reset();
    }
}

void FrontEndStats::record(protocol::Opcode opcode, std::chrono::steady_clock::duration took) {
    if (resetPending_.load(std::memory_order_relaxed)) [[unlikely]] {
        clearTimings();
        resetPending_.store(false, std::memory_order_release);
    }
    auto& cell = timings_[protocol::raw(opcode)];
    auto* histogram = cell.load(std::memory_order_relaxed);
    if (histogram == nullptr) {
        const NonBucketGuard guard;
        histogram = std::make_unique<LatencyHistogram>().release();
        cell.store(histogram, std::memory_order_release);
    }
    const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
    histogram->record(nanos > 0 ? static_cast<uint64_t>(nanos) : 0);
}

void FrontEndStats::reset() {
    for (Counter* counter :
         {&requests, &gets, &getHits, &sets, &otherMutations, &flushes, &bytesRead, &bytesWritten,
          &wakeups, &yields, &slowReaders, &authErrors, &bufferLimitCloses, &overdueCloses}) {
        counter->reset();
    }
    resetPending_.store(true, std::memory_order_release);
}

void FrontEndStats::clearTimings() {
    for (auto& timing : timings_) {
        if (auto* histogram = timing.load(std::memory_order_acquire); histogram != nullptr) {
            histogram->reset();
        }
    }
}

}  // namespace kv::server
