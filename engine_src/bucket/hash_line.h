// HashLine: one cache line of a hash table: seven documents, and further lines when those are full.
//
// A search compares the tags of the line and touches only the StoredValue that it looks for (the
// tag of another one matches once in 65 536). So it waits for two reads from memory, the line and
// the document. A chain through the documents would wait for every other document before it.
//
// Entries are packed: only the last line of a chain has empty ones, at its end. An empty further
// line follows full ones only if reserve() has made room. Ownership: a line does not own the
// StoredValues. Threads: guarded by the lock of the line (hash_index.h). Lines are in a HashLines
// array that is aligned to the cache; further lines are plain blocks, because an aligned block
// costs some allocators twice as much.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

namespace kv {

class StoredValue;

/// The address of a StoredValue with 16 bits of its key's hash, in one word. The tag uses the bits
/// that user addresses of x86-64 and aarch64 leave free. Empty: no StoredValue.
class TaggedPointer {
  public:
    TaggedPointer() = default;
    TaggedPointer(StoredValue* target, uint16_t tag)
        : bits_(reinterpret_cast<uint64_t>(target) | (static_cast<uint64_t>(tag) << kAddressBits)) {
    }
    [[nodiscard]] StoredValue* get() const {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): a tagged pointer is what this class is
        return reinterpret_cast<StoredValue*>(bits_ & kAddressMask);
    }
    [[nodiscard]] uint16_t tag() const { return static_cast<uint16_t>(bits_ >> kAddressBits); }
    explicit operator bool() const { return bits_ != 0; }

  private:
    static constexpr unsigned kAddressBits = 48;
    static constexpr uint64_t kAddressMask = (uint64_t{1} << kAddressBits) - 1;
    uint64_t bits_{0};
};

class HashLine {
  public:
    static constexpr unsigned kEntries = 7;

    HashLine() = default;
    HashLine(const HashLine&) = delete;
    HashLine& operator=(const HashLine&) = delete;
    ~HashLine() { clear(); }

    /// Returns the first entry with this tag for which matches(StoredValue&) is true; nullptr if
    /// there is none.
    template <class Matches>
    [[nodiscard]] StoredValue* find(uint16_t tag, Matches matches) const {
        for (const HashLine* line = this; line != nullptr; line = line->more_.get()) {
            for (unsigned left = line->entriesWith(tag); left != 0; left &= left - 1) {
                const TaggedPointer entry =
                        line->entries_[static_cast<unsigned>(std::countr_zero(left))];
                if (entry && matches(*entry.get())) {
                    return entry.get();
                }
            }
        }
        return nullptr;
    }

    /// Makes room for one more entry, so that the next add() allocates nothing. Throws
    /// std::bad_alloc without any change.
    void reserve();
    /// Throws std::bad_alloc without any change.
    void add(TaggedPointer added);
    /// Replaces `old`, which must be here, by `fresh`, which has the same tag.
    void replace(const StoredValue* old, TaggedPointer fresh);
    /// `value` must be here.
    void remove(const StoredValue* value);
    void clear() noexcept;

    /// Calls visit(TaggedPointer) for every entry; visit must not change the line.
    template <class Visit>
    void forEach(Visit visit) const {
        for (const HashLine* line = this; line != nullptr; line = line->more_.get()) {
            for (const TaggedPointer entry : line->entries_) {
                if (entry) {
                    visit(entry);
                }
            }
        }
    }

    /// True if another line follows this one.
    [[nodiscard]] bool hasMore() const { return more_ != nullptr; }

  private:
    /// Bit i is set if entry i has this tag. Empty entries have tag 0. Unrolled and without
    /// branches, because the matching entry cannot be predicted.
    [[nodiscard]] unsigned entriesWith(uint16_t tag) const {
        return [ this, tag ]<unsigned... I>(std::integer_sequence<unsigned, I...>) {
            return ((static_cast<unsigned>(entries_[I].tag() == tag) << I) | ...);
        }
        (std::make_integer_sequence<unsigned, kEntries>());
    }
    [[nodiscard]] bool isEmpty() const { return !entries_.front(); }
    [[nodiscard]] bool isFull() const { return static_cast<bool>(entries_.back()); }

    std::array<TaggedPointer, kEntries> entries_{};
    std::unique_ptr<HashLine> more_;
};
static_assert(sizeof(HashLine) == 64, "a line of the table is one line of the cache");

struct HashLinesDeleter {
    uint32_t count{0};
    void operator()(HashLine* lines) const noexcept;
};

/// The first lines of a table, empty. Owns the further lines, but not the StoredValues.
class HashLines {
  public:
    HashLines() = default;
    explicit HashLines(uint32_t count);
    HashLines(HashLines&&) = default;
    HashLines& operator=(HashLines&&) = default;

    [[nodiscard]] HashLine* get() const { return lines_.get(); }
    HashLine& operator[](uint32_t line) const { return lines_.get()[line]; }

  private:
    std::unique_ptr<HashLine, HashLinesDeleter> lines_;
};

}  // namespace kv
