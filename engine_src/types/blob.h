// Blob: a document's value as one ref-counted heap block, header and bytes together.
//
// Ownership: shared by the StoredValue, checkpoint items, the flusher and DCP streams through
// BlobPtr. Threads: the bytes of a finished Blob never change, so readers need no lock. The last
// reference frees the block on the thread that drops it. The fragmentation experiments measure this
// delayed, cross-thread free, so blobs are never pooled.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "types/intrusive_ptr.h"

namespace kv {

class BlobPtr;

class Blob {
  public:
    Blob(const Blob&) = delete;
    Blob& operator=(const Blob&) = delete;

    /// Creates a blob with a copy of `head` followed by `tail` (append and prepend pass two parts,
    /// others one).
    static BlobPtr create(std::string_view head, std::string_view tail = {});

    [[nodiscard]] std::string_view view() const {
        return {reinterpret_cast<const char*>(this + 1), size_};
    }
    [[nodiscard]] uint32_t size() const { return size_; }
    /// Bytes requested from the allocator for a value of `size` bytes.
    static constexpr size_t allocationSize(size_t size) { return sizeof(uint32_t) * 2 + size; }

  private:
    friend class BlobDraft;
    friend class IntrusivePtr<const Blob>;
    explicit Blob(uint32_t size) : size_(size) {}
    ~Blob() = default;

    void retain() const noexcept { refs_.retain(); }
    void release() const noexcept {
        if (refs_.release()) {
            ::operator delete(const_cast<Blob*>(this));
        }
    }

    mutable RefCount refs_;
    uint32_t size_;
};
static_assert(sizeof(Blob) == 8, "a blob costs 8 bytes in addition to its value");

/// Owning reference to a Blob; empty for documents without a value (deletions, evicted values).
class BlobPtr : public IntrusivePtr<const Blob> {
  public:
    using IntrusivePtr::IntrusivePtr;
    [[nodiscard]] std::string_view view() const {
        return *this ? get()->view() : std::string_view{};
    }
};

/// A Blob whose only owner has yet to write its bytes.
class BlobDraft {
  public:
    BlobDraft() = default;
    /// Throws std::bad_alloc.
    explicit BlobDraft(size_t size)
        : blob_(::new (::operator new(Blob::allocationSize(size)))
                        Blob(static_cast<uint32_t>(size))) {}

    [[nodiscard]] size_t size() const { return blob_.view().size(); }
    char* bytes() { return reinterpret_cast<char*>(const_cast<Blob*>(blob_.get()) + 1); }
    [[nodiscard]] std::string_view view() const { return blob_.view(); }
    /// From now on the bytes do not change any more.
    BlobPtr finish() && { return std::move(blob_); }

  private:
    BlobPtr blob_;
};

inline BlobPtr Blob::create(std::string_view head, std::string_view tail) {
    BlobDraft draft(head.size() + tail.size());
    char* bytes = draft.bytes();
    if (!head.empty()) {
        std::memcpy(bytes, head.data(), head.size());
    }
    if (!tail.empty()) {
        std::memcpy(bytes + head.size(), tail.data(), tail.size());
    }
    return std::move(draft).finish();
}

}  // namespace kv
