// The calls of the replaced operator new and delete (new_delete.cc): one thread-local test if
// nobody listens.
//
// Bytes are usable sizes as the linked allocator reports them, the same way in every build variant.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "memory/bucket_memory.h"

namespace kv::heap {

inline constexpr size_t kUnassignedSlot = SIZE_MAX;

/// The bucket that the calling thread charges, and the slot that it owns: the index of its private
/// counters. A slot is taken at a thread's first charge and returned when the thread ends, so that
/// a process that keeps creating threads does not run out. The value that the former owner left in
/// a slot stays there for the next owner. constinit: reading it needs no initialisation check.
struct ThreadBinding {
    BucketMemory* bucket{nullptr};
    size_t slot{kUnassignedSlot};
};
extern constinit thread_local ThreadBinding threadBinding;

/// True while a MemoryPeak is switched on; read by every allocation.
extern constinit std::atomic<bool> peakEnabled;
void recordPeak(int64_t bytes) noexcept;

/// True if a block's size must be looked up at all.
inline bool isWatched() noexcept {
    return threadBinding.bucket != nullptr || peakEnabled.load(std::memory_order_relaxed);
}

inline void record(int64_t bytes) noexcept {
    const ThreadBinding binding = threadBinding;
    if (binding.bucket != nullptr) {
        if (binding.slot < BucketMemory::kThreadSlots) [[likely]] {
            binding.bucket->chargeOwnSlot(binding.slot, bytes);
        } else {
            binding.bucket->charge(bytes);
        }
    }
    if (peakEnabled.load(std::memory_order_relaxed)) {
        recordPeak(bytes);
    }
}

}  // namespace kv::heap
