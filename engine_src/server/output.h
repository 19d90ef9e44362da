// Output: answers on their way to a socket: bytes, and between them large values, which are shared
// with the bucket instead of copied.
//
// One front-end thread. A shared value stays alive, and charged to its bucket, until it is sent or
// cleared; the bucket outlives every Output.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "memory/bucket_memory.h"
#include "server/byte_buffer.h"
#include "types/blob.h"

namespace kv::server {

class Output {
  public:
    /// From here on a value is shared: a copy costs more than its piece of a send.
    static constexpr size_t kShareFrom = 16 << 10;

    [[nodiscard]] size_t size() const { return bytes_.size() + sharedBytes_; }
    [[nodiscard]] bool empty() const { return bytes_.empty() && shared_.empty(); }
    /// Memory that is held, shared values included.
    [[nodiscard]] size_t held() const { return bytes_.capacity() + sharedBytes_; }

    /// Room for `count` bytes behind the content; valid until the next call. Throws std::bad_alloc.
    uint8_t* reserve(size_t count) { return bytes_.reserve(count); }
    /// `count` bytes at the address that reserve() gave are content now.
    void commit(size_t count) { bytes_.commit(count); }
    void append(protocol::Bytes bytes) { bytes_.append(bytes); }
    /// Appends a value that `owner` is charged for. Throws std::bad_alloc.
    void share(BlobPtr value, BucketMemory& owner);
    /// Appends everything of `other`, which is empty then.
    void take(Output& other);

    /// The first pieces to send; how many. `pieces` has room for at least one; content that is
    /// all bytes is one piece.
    [[nodiscard]] size_t gather(std::span<iovec> pieces) const;
    /// Drops `count` bytes at the front.
    void consume(size_t count);
    void clear();
    /// Gives the buffer back when there is no content and more than `keep` bytes are held.
    void releaseAbove(size_t keep) { bytes_.releaseAbove(keep); }

  private:
    /// A value behind the first `behind` bytes that were appended since the content was empty.
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
        void consume(size_t count) { sent_ += count; }
        /// Moves it to another Output.
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

    /// Bytes that were appended since the content was empty.
    [[nodiscard]] size_t appended() const { return consumed_ + bytes_.size(); }

    ByteBuffer bytes_;
    std::vector<Shared> shared_;
    size_t consumed_{0};  ///< of the bytes, since the content was empty
    size_t sharedBytes_{0};
};

}  // namespace kv::server
