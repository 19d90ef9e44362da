#include "bucket/hash_chains.h"

#include <algorithm>
#include <stdexcept>

#include "bucket/prime_sizes.h"

namespace kv {

HashChains::HashChains(uint32_t size, uint32_t locks)
    : size_(size),
      lockCount_(locks),
      lockMagic_(locks != 0 ? UINT64_MAX / locks + 1 : 0),
      heads_(nullptr),
      initialSize_(size) {
    if (size == 0 || locks == 0) {
        throw std::invalid_argument("a hash table needs at least one bucket and one lock");
    }
    locks_ = std::make_unique<std::mutex[]>(locks);
    heads_.store(new ChainPointer[size], std::memory_order_relaxed);
}

HashChains::~HashChains() {
    freeAll(lockAll());
    delete[] heads();
}

bool HashChains::tryLockBucket(uint32_t bucket, uint32_t expectedSize,
                               std::unique_lock<std::mutex>& lock) const {
    lock = std::unique_lock(locks_[lockOf(bucket)]);
    return size() == expectedSize;
}

HashChains::Guard HashChains::lockHash(uint64_t hash) {
    while (true) {
        const uint32_t tableSize = size();
        const uint32_t bucket = bucketOf(hash, tableSize);
        std::unique_lock<std::mutex> lock(locks_[lockOf(bucket)]);
        // A resize may have run while we waited: the bucket, and so the lock, may be another one
        // now.
        if (size() == tableSize) [[likely]] {
            return Guard(std::move(lock), bucket, static_cast<uint16_t>(hash));
        }
    }
}

HashChains::AllGuard HashChains::lockAll() {
    std::vector<std::unique_lock<std::mutex>> all;
    all.reserve(lockCount_);
    for (uint32_t i = 0; i < lockCount_; ++i) {
        all.emplace_back(locks_[i]);
    }
    return AllGuard(std::move(all));
}

void HashChains::link(const Guard& guard, StoredValuePtr value) {
    ChainPointer& head = heads()[guard.bucket()];
    StoredValue* added = value.release();
    added->setNext(head);
    head = ChainPointer(added, guard.tag());
}

StoredValuePtr HashChains::unlink(const Guard& guard, StoredValue* value) {
    ChainPointer& head = heads()[guard.bucket()];
    if (head.get() == value) {
        head = value->next();
        return StoredValuePtr(value);
    }
    StoredValue* before = head.get();
    while (before->next().get() != value) {
        before = before->next().get();
    }
    before->setNext(value->next());
    return StoredValuePtr(value);
}

void HashChains::freeAll(const AllGuard&) {
    for (uint32_t bucket = 0; bucket < size(); ++bucket) {
        ChainPointer at = std::exchange(heads()[bucket], ChainPointer());
        while (at) {
            const StoredValuePtr doomed(at.get());
            at = doomed->next();
        }
    }
}

uint32_t HashChains::preferredSize(size_t entries) const {
    const auto above = std::lower_bound(kPrimeSizes.begin(), kPrimeSizes.end(), entries);
    if (above == kPrimeSizes.end()) {
        return kPrimeSizes.back();
    }
    const uint32_t upper = *above;
    const uint32_t lower = above == kPrimeSizes.begin() ? upper : *(above - 1);
    const uint32_t present = size();
    if (present == upper || present == lower) {
        return present;
    }
    const uint32_t nearest = upper - entries <= entries - lower ? upper : lower;
    return std::max(nearest, initialSize_);
}

void HashChains::resize(uint32_t newSize) {
    if (newSize == 0 || newSize == size()) {
        return;
    }
    std::unique_ptr<ChainPointer[]> fresh(new ChainPointer[newSize]);
    const AllGuard guard = lockAll();
    const uint32_t oldSize = size();
    ChainPointer* old = heads();
    for (uint32_t bucket = 0; bucket < oldSize; ++bucket) {
        ChainPointer at = old[bucket];
        while (at) {
            StoredValue* moved = at.get();
            const uint16_t tag = at.tag();
            at = moved->next();
            ChainPointer& head = fresh[bucketOf(hashKey(moved->key()), newSize)];
            moved->setNext(head);
            head = ChainPointer(moved, tag);
        }
    }
    heads_.store(fresh.release(), std::memory_order_relaxed);
    size_.store(newSize, std::memory_order_relaxed);
    delete[] old;
}

}  // namespace kv
