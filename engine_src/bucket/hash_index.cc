#include "bucket/hash_index.h"

#include <algorithm>
#include <stdexcept>

#include "types/contention.h"

namespace kv {

HashIndex::HashIndex(uint32_t size, uint32_t locks)
    : size_(size),
      lockCount_(locks),
      lockMagic_(locks != 0 ? UINT64_MAX / locks + 1 : 0),
      lines_(nullptr),
      initialSize_(size) {
    if (size == 0 || locks == 0) {
        throw std::invalid_argument("a hash table needs at least one bucket and one lock");
    }
    locks_ = std::make_unique<std::mutex[]>(locks);
    use(HashLines(lineCount(size)), size);
}

HashIndex::Contents::~Contents() {
    for (uint32_t line = 0; line < count_; ++line) {
        lines_[line].forEach([](TaggedPointer entry) { const StoredValuePtr doomed(entry.get()); });
    }
}

bool HashIndex::tryLockLine(uint32_t line, uint32_t expectedSize,
                            std::unique_lock<std::mutex>& lock) const {
    lock = std::unique_lock(locks_[lockOf(line)]);
    return size() == expectedSize;
}

HashIndex::Guard HashIndex::lockHash(uint64_t hash) {
    while (true) {
        const uint32_t tableSize = size();
        const uint32_t line = lineOf(hash, lineCount(tableSize));
        auto lock = lockCounted<std::unique_lock<std::mutex>>(locks_[lockOf(line)],
                                                              contention.hashLocks);
        // A resize may have run while we waited, so the line, and thus the lock, may be another one
        // now.
        if (size() == tableSize) [[likely]] {
            return Guard(std::move(lock), line, static_cast<uint16_t>(hash));
        }
    }
}

HashIndex::AllGuard HashIndex::lockAll() const {
    for (uint32_t i = 0; i < lockCount_; ++i) {
        locks_[i].lock();
    }
    return AllGuard(*this);
}

void HashIndex::unlockAll() const {
    for (uint32_t i = lockCount_; i > 0; --i) {
        locks_[i - 1].unlock();
    }
}

void HashIndex::link(const Guard& guard, StoredValuePtr value) {
    lines()[guard.line()].add(TaggedPointer(value.get(), guard.tag()));
    (void)value.release();
}

StoredValuePtr HashIndex::exchange(const Guard& guard, StoredValue* old, StoredValuePtr fresh) {
    lines()[guard.line()].replace(old, TaggedPointer(fresh.get(), guard.tag()));
    (void)fresh.release();
    return StoredValuePtr(old);
}

StoredValuePtr HashIndex::unlink(const Guard& guard, StoredValue* value) {
    lines()[guard.line()].remove(value);
    return StoredValuePtr(value);
}

HashIndex::Contents HashIndex::takeAll(const AllGuard&, EmptyLines empty) {
    Contents taken = std::exchange(owned_, {});
    use(std::move(empty.lines_), empty.size_);
    return taken;
}

uint32_t HashIndex::preferredSize(size_t entries) const {
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

void HashIndex::resize(uint32_t newSize) {
    if (newSize == 0 || newSize == size()) {
        return;
    }
    const uint32_t newCount = lineCount(newSize);
    HashLines fresh(newCount);
    const AllGuard guard = lockAll();
    for (uint32_t line = 0; line < lineCount(size()); ++line) {
        lines()[line].forEach([&](TaggedPointer entry) {
            fresh[lineOf(hashKey(entry.get()->key()), newCount)].add(entry);
        });
    }
    owned_.count_ = 0;  // the content of the old lines is in the new ones
    use(std::move(fresh), newSize);
}

void HashIndex::use(HashLines lines, uint32_t size) {
    lines_.store(lines.get(), std::memory_order_relaxed);
    size_.store(size, std::memory_order_relaxed);
    owned_ = Contents(std::move(lines), lineCount(size));
}

}  // namespace kv
