#include "memory/bucket_memory.h"

#include <bit>

#include "memory/heap_hooks.h"

namespace kv {

namespace heap {

constinit thread_local ThreadBinding threadBinding;

namespace {

static_assert(BucketMemory::kThreadSlots == 64, "the slots in use are the bits of one word");
constinit std::atomic<uint64_t> slotsInUse{0};

/// Returns the slot at the end of the thread; later frees go to the shared slot.
struct SlotReturn {
    size_t slot{BucketMemory::kThreadSlots};
    ~SlotReturn() {
        threadBinding.slot = BucketMemory::kThreadSlots;
        if (slot < BucketMemory::kThreadSlots) {
            slotsInUse.fetch_and(~(uint64_t{1} << slot), std::memory_order_release);
        }
    }
};

size_t takeFreeSlot() noexcept {
    uint64_t used = slotsInUse.load(std::memory_order_relaxed);
    while (used != UINT64_MAX) {
        const auto slot = static_cast<size_t>(std::countr_one(used));
        if (slotsInUse.compare_exchange_weak(used, used | (uint64_t{1} << slot),
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
            return slot;
        }
    }
    return BucketMemory::kThreadSlots;
}

/// Gives the calling thread a slot and records it in its ThreadBinding: below
/// `BucketMemory::kThreadSlots`, or exactly that number, the shared one, if all are taken (or the
/// thread is already ending).
size_t assignThreadSlot() noexcept {
    threadBinding.slot =
            BucketMemory::kThreadSlots;  // for allocations made while the destructor is registered
    static thread_local SlotReturn slotReturn;
    slotReturn.slot = takeFreeSlot();
    threadBinding.slot = slotReturn.slot;
    return threadBinding.slot;
}

}  // namespace

}  // namespace heap

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
