#include "memory/memory_peak.h"

#include <stdexcept>

#include "memory/heap_hooks.h"

namespace kv {

namespace heap {
constinit std::atomic<bool> peakEnabled{false};

namespace {
alignas(64) constinit std::atomic<int64_t> current{0};
constinit std::atomic<int64_t> highest{0};
}  // namespace

void recordPeak(int64_t bytes) noexcept {
    const int64_t now = current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t seen = highest.load(std::memory_order_relaxed);
    while (now > seen && !highest.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
}
}  // namespace heap

MemoryPeak::MemoryPeak() {
    if (heap::peakEnabled.exchange(true)) {
        throw std::logic_error("a MemoryPeak is already watching this process");
    }
    heap::current = 0;
    heap::highest = 0;
}

MemoryPeak::~MemoryPeak() {
    heap::peakEnabled = false;
}

int64_t MemoryPeak::current() const noexcept {
    return heap::current.load();
}

int64_t MemoryPeak::max() const noexcept {
    return heap::highest.load();
}

void MemoryPeak::resetMax() noexcept {
    heap::highest = heap::current.load();
}

}  // namespace kv
