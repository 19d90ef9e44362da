#include "memory/bucket_memory.h"

#include "memory/heap_hooks.h"
#include "memory/thread_slot.h"

namespace kv {

namespace heap {
constinit thread_local ThreadBinding threadBinding;
}

BucketMemory::BucketMemory(size_t quotaBytes) : quota_(0), mergeThreshold_(0) {
    setQuota(quotaBytes);
}

void BucketMemory::setQuota(size_t bytes) noexcept {
    const auto threshold =
            static_cast<int64_t>(static_cast<double>(bytes) * kDefaultMergeShare / kThreadSlots);
    quota_.store(bytes, std::memory_order_relaxed);
    mergeThreshold_.store(threshold, std::memory_order_relaxed);
}

size_t BucketMemory::precise() const noexcept {
    int64_t sum = total_.load(std::memory_order_acquire);
    for (const Slot& slot : slots_) {
        sum += slot.bytes.load(std::memory_order_relaxed);
    }
    return sum > 0 ? static_cast<size_t>(sum) : 0;
}

void BucketMemory::charge(int64_t bytes) noexcept {
    const size_t known = heap::threadBinding.slot;
    const size_t index = known != heap::kUnassignedSlot ? known : heap::assignThreadSlot();
    if (index < kThreadSlots) {
        chargeOwnSlot(index, bytes);
        return;
    }
    // Shared by several threads, so the slot is reduced by exactly the amount that is moved to the
    // total.
    Slot& slot = slots_[kThreadSlots];
    const int64_t value = slot.bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const int64_t threshold = mergeThreshold();
    if (value > threshold || value < -threshold) {
        slot.bytes.fetch_sub(value, std::memory_order_relaxed);
        addToTotal(value);
    }
}

void BucketMemory::merge(Slot& slot, int64_t value) noexcept {
    slot.bytes.store(0, std::memory_order_relaxed);
    addToTotal(value);
}

void BucketMemory::addToTotal(int64_t value) noexcept {
    total_.fetch_add(value, std::memory_order_release);
    merges_.fetch_add(1, std::memory_order_relaxed);
}

BucketMemoryGuard::BucketMemoryGuard(BucketMemory* bucket) noexcept
    : previous_(heap::threadBinding.bucket) {
    heap::threadBinding.bucket = bucket;
}

BucketMemoryGuard::~BucketMemoryGuard() {
    heap::threadBinding.bucket = previous_;
}

BucketMemory* BucketMemoryGuard::current() noexcept {
    return heap::threadBinding.bucket;
}

}  // namespace kv
