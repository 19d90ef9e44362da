// HashIndex: the lines, locks and resizing of a hash table, without its statistics (hash_table.h
// adds them).
//
// It has `size` hash buckets, of which kBucketsPerLine share a line (hash_line.h); a lock guards
// every `locks`-th line. A key's line is the high 32 bits of its hash scaled to the number of
// lines, so lines are in hash order at any size: a paused visit continues after a resize without
// missing anything.
//
// Ownership: owns the StoredValues in its lines. Threads: lock() returns a Guard, the proof that
// every function which touches a line requires; resize(), clear() and lockAll() take every lock.
// Lock order: one line's lock at a time, or all of them in index order; then a sequence list's
// lock, then a checkpoint manager's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "bucket/hash_line.h"
#include "bucket/stored_value.h"
#include "types/key_hash.h"

namespace kv {

/// Sizes of a hash table: primes next to 3 * 2^k, each about twice the one before.
inline constexpr std::array<uint32_t, 29> kPrimeSizes{
        3,        7,         13,        23,        47,       97,      193,      383,
        769,      1531,      3067,      6143,      12289,    24571,   49157,    98299,
        196613,   393209,    786433,    1572869,   3145721,  6291449, 12582917, 25165813,
        50331653, 100663291, 201326611, 402653189, 805306357};

class HashIndex {
  public:
    /// At one document per bucket a line has three free entries, and 2 of 100 documents are in a
    /// further line (Poisson with mean 4).
    static constexpr uint32_t kBucketsPerLine = 4;

    /// Proof that the lock of one line is held.
    class Guard {
      public:
        Guard(Guard&&) = default;
        Guard& operator=(Guard&&) = delete;
        [[nodiscard]] uint32_t line() const { return line_; }
        [[nodiscard]] uint16_t tag() const { return tag_; }

      private:
        friend class HashIndex;
        Guard(std::unique_lock<std::mutex> lock, uint32_t line, uint16_t tag)
            : lock_(std::move(lock)), line_(line), tag_(tag) {}
        std::unique_lock<std::mutex> lock_;
        uint32_t line_;
        uint16_t tag_;  ///< of the requested or visited key
    };
    /// Proof that all locks are held.
    class AllGuard {
      public:
        AllGuard(AllGuard&& other) noexcept : index_(std::exchange(other.index_, nullptr)) {}
        AllGuard& operator=(AllGuard&&) = delete;
        ~AllGuard() {
            if (index_ != nullptr) {
                index_->unlockAll();
            }
        }

      private:
        friend class HashIndex;
        explicit AllGuard(const HashIndex& index) : index_(&index) {}
        const HashIndex* index_;
    };

    /// The content of a cleared table. Frees it without any lock.
    class Contents {
      public:
        Contents() = default;
        Contents(Contents&& other) noexcept
            : lines_(std::move(other.lines_)), count_(std::exchange(other.count_, 0)) {}
        Contents& operator=(Contents&& other) noexcept {
            std::swap(lines_, other.lines_);
            std::swap(count_, other.count_);
            return *this;
        }
        ~Contents();

      private:
        friend class HashIndex;
        Contents(HashLines lines, uint32_t count) : lines_(std::move(lines)), count_(count) {}
        HashLines lines_;
        uint32_t count_{0};
    };

    /// The lines of an empty table.
    class EmptyLines {
        friend class HashIndex;
        explicit EmptyLines(uint32_t size) : lines_(lineCount(size)), size_(size) {}
        HashLines lines_;
        uint32_t size_;
    };

    /// The progress of a visit: every key whose 32 high hash bits are below `hash` has been seen.
    struct Position {
        uint64_t hash{0};
        [[nodiscard]] bool atEnd() const { return hash > UINT32_MAX; }
    };

    HashIndex(uint32_t size, uint32_t locks);
    HashIndex(const HashIndex&) = delete;
    HashIndex& operator=(const HashIndex&) = delete;
    ~HashIndex() = default;

    [[nodiscard]] Guard lock(std::string_view key) { return lockHash(hashKey(key)); }
    [[nodiscard]] Guard lockHash(uint64_t hash);
    /// Allocates nothing.
    [[nodiscard]] AllGuard lockAll() const;

    /// Returns the key's StoredValue, including tombstones; nullptr if there is none. `guard` is
    /// the key's.
    [[nodiscard]] StoredValue* find(const Guard& guard, std::string_view key) const {
        return lines()[guard.line()].find(
                guard.tag(), [key](const StoredValue& value) { return value.key() == key; });
    }
    /// Starts loading the key's line and its lock into the cache; takes no lock.
    void prefetch(uint64_t hash) const {
        const uint32_t line = lineOf(hash, lineCount(size()));
        __builtin_prefetch(lines() + line);
        __builtin_prefetch(&locks_[lockOf(line)], 1);
    }

    /// Calls visit(guard, StoredValue&) for every StoredValue from `from` on, line by line. After
    /// the line in which it returned false, the visit pauses. A StoredValue that stays in the table
    /// all the time is seen at least once, also across resizes. The visitor may change and unlink
    /// the StoredValue it is given, but no other one.
    template <class Visit>
    Position visit(Position from, Visit visit);

    [[nodiscard]] uint32_t size() const { return size_.load(std::memory_order_relaxed); }
    /// Returns the size that suits `entries`: a prime near it, never below the initial size.
    /// Returns the present size if that is one of the two primes around `entries` (hysteresis).
    [[nodiscard]] uint32_t preferredSize(size_t entries) const;
    /// Puts every StoredValue into new lines, while readers and writers wait. Throws std::bad_alloc
    /// without any change.
    void resize(uint32_t newSize);
    /// Allocates the lines for clear(). Throws std::bad_alloc.
    [[nodiscard]] EmptyLines makeEmptyLines() const { return EmptyLines(size()); }
    /// Bytes requested for the first lines and the locks; further lines are not included.
    [[nodiscard]] size_t structureBytes() const {
        return lineCount(size()) * sizeof(HashLine) + lockCount_ * sizeof(std::mutex);
    }

  protected:
    void reserveEntry(const Guard& guard) { lines()[guard.line()].reserve(); }
    void link(const Guard& guard, StoredValuePtr value);
    /// Replaces `old` by `fresh`, which has the same key. Allocates nothing.
    [[nodiscard]] StoredValuePtr exchange(const Guard& guard, StoredValue* old,
                                          StoredValuePtr fresh);
    [[nodiscard]] StoredValuePtr unlink(const Guard& guard, StoredValue* value);
    /// Leaves the table empty. Allocates nothing.
    [[nodiscard]] Contents takeAll(const AllGuard& guard, EmptyLines empty);

  private:
    __extension__ using Uint128 = unsigned __int128;

    static uint32_t lineCount(uint32_t size) {
        return size / kBucketsPerLine + (size % kBucketsPerLine != 0 ? 1 : 0);
    }
    static uint32_t lineOf(uint64_t hash, uint32_t lines) {
        return static_cast<uint32_t>(((hash >> 32) * lines) >> 32);
    }
    [[nodiscard]] uint32_t lockOf(uint32_t line) const {
        // line % lockCount_ by two multiplications: the divisor never changes.
        const uint64_t fraction = lockMagic_ * line;
        return static_cast<uint32_t>((static_cast<Uint128>(fraction) * lockCount_) >> 64);
    }
    [[nodiscard]] HashLine* lines() const { return lines_.load(std::memory_order_relaxed); }
    /// Takes the lock of `line` in a table of `expectedSize`. Returns false if the table has
    /// another size now.
    bool tryLockLine(uint32_t line, uint32_t expectedSize,
                     std::unique_lock<std::mutex>& lock) const;

    void unlockAll() const;
    /// Needs all locks, except in the constructor.
    void use(HashLines lines, uint32_t size);

    std::atomic<uint32_t> size_;
    const uint32_t lockCount_;
    const uint64_t lockMagic_;
    Contents owned_;
    /// Points to the lines of owned_; written with all locks held, atomic for prefetch().
    std::atomic<HashLine*> lines_;
    std::unique_ptr<std::mutex[]> locks_;
    const uint32_t initialSize_;
};

template <class Visit>
HashIndex::Position HashIndex::visit(Position from, Visit visit) {
    bool goOn = true;
    std::vector<TaggedPointer> entries;
    while (goOn && !from.atEnd()) {
        const uint32_t tableSize = size();
        const uint32_t count = lineCount(tableSize);
        const uint32_t line = lineOf(from.hash << 32, count);
        std::unique_lock<std::mutex> lock;
        if (!tryLockLine(line, tableSize, lock)) {
            continue;
        }
        Guard guard(std::move(lock), line, 0);
        // A copy, because the visitor may unlink the StoredValue it is given.
        entries.clear();
        lines()[line].forEach([&entries](TaggedPointer entry) { entries.push_back(entry); });
        for (const TaggedPointer entry : entries) {
            guard.tag_ = entry.tag();
            goOn = visit(static_cast<const Guard&>(guard), *entry.get()) && goOn;
        }
        // The lowest hash of the next line: ceil((line + 1) * 2^32 / count).
        from.hash = (((uint64_t{line} + 1) << 32) + count - 1) / count;
    }
    return from;
}

}  // namespace kv
