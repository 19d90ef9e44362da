#include "memory/thread_slot.h"

#include <atomic>
#include <bit>
#include <cstdint>

#include "memory/bucket_memory.h"
#include "memory/heap_hooks.h"

namespace kv::heap {

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

}  // namespace

size_t assignThreadSlot() noexcept {
    threadBinding.slot =
            BucketMemory::kThreadSlots;  // for allocations made while the destructor is registered
    static thread_local SlotReturn slotReturn;
    slotReturn.slot = takeFreeSlot();
    threadBinding.slot = slotReturn.slot;
    return threadBinding.slot;
}

}  // namespace kv::heap
