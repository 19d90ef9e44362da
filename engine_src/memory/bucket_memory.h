// BucketMemory: the bytes of the heap that belong to one bucket ("mem_used"), in usable sizes.
//
// Charging: operator new/delete (memory/new_delete.cc) charge the usable size of a block to the
// bucket that is bound to the calling thread, or to nobody if none is bound. So everything that
// lives as long as the bucket must be both allocated AND freed under a guard of that bucket: hash
// tables, StoredValues, Blobs, Items, checkpoints, cursors, the flusher's batch and the bucket
// itself. Connections and their buffers, clients' statistics, the store's own caches, executor and
// logs belong to no bucket.
//
// A BlobPtr or ItemPtr that the bucket returned must therefore be dropped while a guard of that
// bucket is held. Bucket's own operations take the guard themselves; nesting the same bucket costs
// two loads.
//
// Counting: each thread owns a slot (a cache line) and adds to it with plain stores. When a slot's
// value passes the merge threshold (0.5 % of the quota / slots), its owner moves it to the shared
// total. estimate() reads only the total, precise() adds every slot: exact when the bucket is idle.
// Threads beyond kThreadSlots share one slot with atomic adds.
//
// Threads: everything here may be called from any thread. Bytes are signed: a slot may be negative,
// the sum is not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kv {

class BucketMemory {
  public:
    static constexpr size_t kThreadSlots = 64;
    /// Share of the quota that all slots together may keep unmerged.
    static constexpr double kDefaultMergeShare = 0.005;

    explicit BucketMemory(size_t quotaBytes);
    BucketMemory(const BucketMemory&) = delete;
    BucketMemory& operator=(const BucketMemory&) = delete;

    /// Bytes used, at most merge share x quota from the exact value; one load.
    [[nodiscard]] size_t estimate() const noexcept {
        const int64_t value = total_.load(std::memory_order_relaxed);
        return value > 0 ? static_cast<size_t>(value) : 0;
    }
    /// Bytes used, summed over all slots; exact if nobody allocates at the same time.
    [[nodiscard]] size_t precise() const noexcept;

    [[nodiscard]] size_t quota() const noexcept { return quota_.load(std::memory_order_relaxed); }
    void setQuota(size_t bytes) noexcept;
    [[nodiscard]] int64_t mergeThreshold() const noexcept {
        return mergeThreshold_.load(std::memory_order_relaxed);
    }

    /// Number of times that a slot was moved to the total.
    [[nodiscard]] uint64_t merges() const noexcept {
        return merges_.load(std::memory_order_relaxed);
    }

    /// Adds to the calling thread's slot. `bytes` is negative for a free.
    void charge(int64_t bytes) noexcept;
    /// The same for a thread that owns `slot` (below kThreadSlots): every new and delete runs it.
    void chargeOwnSlot(size_t slot, int64_t bytes) noexcept {
        // Only the owner writes a slot, so a load and a store replace an atomic read-modify-write.
        std::atomic<int64_t>& own = slots_[slot].bytes;
        const int64_t value = own.load(std::memory_order_relaxed) + bytes;
        const int64_t threshold = mergeThreshold();
        if (value > threshold || value < -threshold) [[unlikely]] {
            merge(slots_[slot], value);
            return;
        }
        own.store(value, std::memory_order_relaxed);
    }

  private:
    friend class BucketMemoryGuard;
    struct alignas(64) Slot {
        std::atomic<int64_t> bytes{0};
    };
    void merge(Slot& slot, int64_t value) noexcept;
    void addToTotal(int64_t value) noexcept;

    alignas(64) std::atomic<int64_t> total_{0};  ///< written by every merge
    std::atomic<uint64_t> merges_{0};
    // Read by every charge and almost never written. Next to total_, each merge of one thread would
    // evict them from the caches of all others.
    alignas(64) std::atomic<size_t> quota_;
    std::atomic<int64_t> mergeThreshold_;
    std::array<Slot, kThreadSlots + 1>
            slots_;  ///< the last one is shared by threads without a slot
};

static_assert(sizeof(BucketMemory) == (2 + BucketMemory::kThreadSlots + 1) * 64,
              "the total, the limits and each slot have lines of the cache of their own");

/// Binds a bucket (or nobody: nullptr) to this thread for a scope; restores the earlier binding
/// afterwards.
class BucketMemoryGuard {
  public:
    explicit BucketMemoryGuard(BucketMemory* bucket) noexcept;
    explicit BucketMemoryGuard(BucketMemory& bucket) noexcept : BucketMemoryGuard(&bucket) {}
    BucketMemoryGuard(const BucketMemoryGuard&) = delete;
    BucketMemoryGuard& operator=(const BucketMemoryGuard&) = delete;
    ~BucketMemoryGuard();

    /// The bucket that the calling thread is bound to; nullptr if nobody is charged.
    static BucketMemory* current() noexcept;

  private:
    BucketMemory* previous_;
};

/// Charges nobody for a scope: for objects that outlive the bucket or belong to no bucket.
class NonBucketGuard : public BucketMemoryGuard {
  public:
    NonBucketGuard() noexcept : BucketMemoryGuard(nullptr) {}
};

}  // namespace kv
