// HashChains: the buckets, locks and resizing of a hash table, without its statistics (hash_table.h
// adds them).
//
// A vector of heads of singly linked chains; a lock guards every `locks`-th bucket. A key's bucket
// is the high 32 bits of its hash scaled to the table's size, so buckets are in hash order whatever
// the size: a visit that was paused goes on after a resize without missing anything.
//
// Ownership: owns the StoredValues in its chains. Threads: lock() gives a Guard, the proof that
// every function which touches a chain asks for; resize(), clear() and lockAll() take every lock.
// Lock order: one bucket lock at a time, or all of them in index order; then a sequence list's
// lock, then a checkpoint manager's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "bucket/key_hash.h"
#include "bucket/stored_value.h"

namespace kv {

class HashChains {
  public:
    /// Proof that the lock of one bucket is held.
    class Guard {
      public:
        Guard(Guard&&) = default;
        Guard& operator=(Guard&&) = delete;
        [[nodiscard]] uint32_t bucket() const { return bucket_; }
        [[nodiscard]] uint16_t tag() const { return tag_; }

      private:
        friend class HashChains;
        Guard(std::unique_lock<std::mutex> lock, uint32_t bucket, uint16_t tag)
            : lock_(std::move(lock)), bucket_(bucket), tag_(tag) {}
        std::unique_lock<std::mutex> lock_;
        uint32_t bucket_;
        uint16_t tag_;  ///< of the key that was asked for, or is being visited
    };
    /// Proof that all locks are held.
    class AllGuard {
      public:
        AllGuard(AllGuard&&) = default;
        AllGuard& operator=(AllGuard&&) = delete;

      private:
        friend class HashChains;
        explicit AllGuard(std::vector<std::unique_lock<std::mutex>> locks)
            : locks_(std::move(locks)) {}
        std::vector<std::unique_lock<std::mutex>> locks_;
    };

    /// Where a visit stands: every key whose 32 high hash bits are below `hash` has been seen.
    struct Position {
        uint64_t hash{0};
        [[nodiscard]] bool atEnd() const { return hash > UINT32_MAX; }
    };

    HashChains(uint32_t size, uint32_t locks);
    HashChains(const HashChains&) = delete;
    HashChains& operator=(const HashChains&) = delete;
    ~HashChains();

    [[nodiscard]] Guard lock(std::string_view key) { return lockHash(hashKey(key)); }
    [[nodiscard]] Guard lockHash(uint64_t hash);
    [[nodiscard]] AllGuard lockAll();

    /// The key's StoredValue, tombstones included; nullptr when there is none. `guard` is the
    /// key's.
    [[nodiscard]] StoredValue* find(const Guard& guard, std::string_view key) const {
        for (ChainPointer at = heads()[guard.bucket()]; at; at = at.get()->next()) {
            if (at.tag() == guard.tag() && at.get()->key() == key) {
                return at.get();
            }
        }
        return nullptr;
    }
    /// Starts loading the key's bucket and its lock into the cache; takes no lock.
    void prefetch(uint64_t hash) const {
        const uint32_t bucket = bucketOf(hash, size());
        __builtin_prefetch(heads() + bucket);
        __builtin_prefetch(&locks_[lockOf(bucket)], 1);
    }

    /// Calls visit(guard, StoredValue&) for every StoredValue from `from` on, bucket by bucket;
    /// after the bucket in which it returned false the visit pauses. A StoredValue that stays in
    /// the table all the time is seen at least once, also across resizes. The visitor may change
    /// and unlink the StoredValue it is given, no other one.
    template <class Visit>
    Position visit(Position from, Visit visit);

    [[nodiscard]] uint32_t size() const { return size_.load(std::memory_order_relaxed); }
    [[nodiscard]] uint32_t lockCount() const { return lockCount_; }
    /// The size that suits `entries`: a prime near it, never below the initial size; the present
    /// size when that is one of the two primes around `entries` (hysteresis).
    [[nodiscard]] uint32_t preferredSize(size_t entries) const;
    /// Moves every StoredValue into a new vector of heads. Readers and writers wait meanwhile.
    void resize(uint32_t newSize);
    /// Bytes asked for heads and locks.
    [[nodiscard]] size_t structureBytes() const {
        return size() * sizeof(ChainPointer) + lockCount_ * sizeof(std::mutex);
    }

  protected:
    void link(const Guard& guard, StoredValuePtr value);
    [[nodiscard]] StoredValuePtr unlink(const Guard& guard, StoredValue* value);
    /// Frees every StoredValue.
    void freeAll(const AllGuard& guard);

  private:
    static uint32_t bucketOf(uint64_t hash, uint32_t size) {
        return static_cast<uint32_t>(((hash >> 32) * size) >> 32);
    }
    [[nodiscard]] uint32_t lockOf(uint32_t bucket) const {
        // bucket % lockCount_ by two multiplications: the divisor never changes.
        const uint64_t fraction = lockMagic_ * bucket;
        return static_cast<uint32_t>((static_cast<detail::Uint128>(fraction) * lockCount_) >> 64);
    }
    [[nodiscard]] ChainPointer* heads() const { return heads_.load(std::memory_order_relaxed); }
    /// Holds the lock of `bucket` of a table of `expectedSize`; false when the table has another
    /// size now.
    bool tryLockBucket(uint32_t bucket, uint32_t expectedSize,
                       std::unique_lock<std::mutex>& lock) const;

    std::atomic<uint32_t> size_;
    const uint32_t lockCount_;
    const uint64_t lockMagic_;
    std::atomic<ChainPointer*> heads_;  ///< written with all locks held; atomic for prefetch()
    std::unique_ptr<std::mutex[]> locks_;
    const uint32_t initialSize_;
};

template <class Visit>
HashChains::Position HashChains::visit(Position from, Visit visit) {
    bool goOn = true;
    while (goOn && !from.atEnd()) {
        const uint32_t tableSize = size();
        const uint32_t bucket = bucketOf(from.hash << 32, tableSize);
        std::unique_lock<std::mutex> lock;
        if (!tryLockBucket(bucket, tableSize, lock)) {
            continue;
        }
        Guard guard(std::move(lock), bucket, 0);
        for (ChainPointer at = heads()[bucket]; at;) {
            StoredValue& value = *at.get();
            guard.tag_ = at.tag();
            at = value.next();
            goOn = visit(static_cast<const Guard&>(guard), value) && goOn;
        }
        // The lowest hash of the next bucket: ceil((bucket + 1) * 2^32 / size).
        from.hash = (((uint64_t{bucket} + 1) << 32) + tableSize - 1) / tableSize;
    }
    return from;
}

}  // namespace kv
