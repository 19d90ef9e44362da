// Output: answers on their way to a socket: bytes, and between them large values that are shared
// with the bucket instead of copied.
//
// Threads: one front-end thread. Ownership: a shared value stays alive, and charged to its bucket,
// until it is sent or cleared; the bucket outlives every Output.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "memory/bucket_memory.h"
#include "server/connections/byte_buffer.h"
#include "types/blob.h"

namespace kv::server {

class Output {
  public:
    /// Values from this size on are shared: a copy costs more than another piece of a send.
    static constexpr size_t kShareFrom = 16 << 10;

    [[nodiscard]] size_t size() const { return bytes_.size() + sharedBytes_; }
    [[nodiscard]] bool empty() const { return bytes_.empty() && shared_.empty(); }
    /// Bytes of memory that are held, including shared values.
    [[nodiscard]] size_t held() const { return bytes_.capacity() + pinnedBytes_; }
    /// Bytes of shared values. A value counts as a whole until its last byte is consumed.
    [[nodiscard]] size_t pinned() const { return pinnedBytes_; }
    /// Replaces shared values by copies of their unsent bytes, so that the bucket can free old
    /// versions. Throws std::bad_alloc, without any change.
    void copyShared();

    /// Returns room for `count` bytes behind the content, valid until the next call. Throws
    /// std::bad_alloc.
    uint8_t* reserve(size_t count) { return bytes_.reserve(count); }
    /// Appends `count` bytes, which were written at the address that reserve() returned.
    void commit(size_t count) { bytes_.commit(count); }
    void append(protocol::Bytes bytes) { bytes_.append(bytes); }
    /// Appends a value that is charged to `owner`. Throws std::bad_alloc.
    void share(BlobPtr value, BucketMemory& owner);
    /// Appends the content of `other` and leaves `other` empty.
    void take(Output& other);

    /// Fills in the first pieces to send and returns their number. `pieces` has room for at least
    /// one; content without shared values is one piece.
    [[nodiscard]] size_t gather(std::span<iovec> pieces) const;
    /// Drops `count` bytes at the front.
    void consume(size_t count);
    void clear();
    /// Frees the buffer if there is no content and more than `keep` bytes are held.
    void releaseAbove(size_t keep) { bytes_.releaseAbove(keep); }

  private:
    /// A shared value that follows the first `behind` bytes appended since the content was last
    /// empty.
    class Shared {
      public:
        Shared(size_t behind, BlobPtr value, BucketMemory& owner)
            : behind_(behind), value_(std::move(value)), owner_(&owner) {}
        Shared(Shared&&) noexcept = default;
        Shared& operator=(Shared&& other) noexcept;
        Shared(const Shared&) = delete;
        Shared& operator=(const Shared&) = delete;
        ~Shared() { drop(); }

        [[nodiscard]] size_t behind() const { return behind_; }
        [[nodiscard]] std::string_view rest() const { return value_.view().substr(sent_); }
        [[nodiscard]] size_t size() const { return value_.view().size(); }
        void consume(size_t count) { sent_ += count; }
        /// Returns the value for another Output.
        Shared moved(size_t by) && {
            behind_ += by;
            return std::move(*this);
        }

      private:
        void drop() noexcept;

        size_t behind_;
        size_t sent_{0};
        BlobPtr value_;
        BucketMemory* owner_;
    };

    /// Bytes appended since the content was last empty.
    [[nodiscard]] size_t appended() const { return consumed_ + bytes_.size(); }

    ByteBuffer bytes_;
    std::vector<Shared> shared_;
    size_t consumed_{0};     ///< bytes consumed since the content was last empty
    size_t sharedBytes_{0};  ///< unsent bytes of shared values
    size_t pinnedBytes_{0};
};

}  // namespace kv::server
