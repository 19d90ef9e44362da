// LargeRequest: an incomplete large request whose value is read from the socket into the Blob that
// the bucket will keep, so that only the kernel copies it.
//
// Threads: one front-end thread. Ownership: the Blob is charged to the bucket from the beginning
// and freed if the request does not complete; the bucket outlives it. start() decides whether a
// request is read this way; its answer does not depend on it.
#pragma once

#include "memory/bucket_memory.h"
#include "server/commands/session.h"
#include "server/connections/byte_buffer.h"
#include "server/server_context.h"
#include "types/blob.h"

namespace kv::server {

class LargeRequest {
  public:
    /// A value up to this size gets its Blob as soon as its key is known; a larger one when half of
    /// it has arrived. So the memory of a connection depends on the bytes it has sent.
    static constexpr size_t kAtOnce = size_t{1} << 20;

    LargeRequest() = default;
    /// Takes over the incomplete request at the front of `input` if its command keeps values, the
    /// session may run it, and the bucket has room below its high watermark. Otherwise, or if
    /// memory is short, the result is empty.
    static LargeRequest start(const ServerContext& server, const Session& session,
                              protocol::Bytes input);

    LargeRequest(LargeRequest&& other) noexcept
        : head_(std::move(other.head_)),
          draft_(std::move(other.draft_)),
          filled_(other.filled_),
          owner_(std::exchange(other.owner_, nullptr)) {}
    LargeRequest& operator=(LargeRequest&& other) noexcept;
    LargeRequest(const LargeRequest&) = delete;
    LargeRequest& operator=(const LargeRequest&) = delete;
    ~LargeRequest() { drop(); }

    explicit operator bool() const { return owner_ != nullptr; }
    /// Bytes of memory that are held.
    [[nodiscard]] size_t held() const {
        return *this ? head_.capacity() + Blob::allocationSize(draft_.size()) : 0;
    }
    /// Bytes of the value still to come.
    [[nodiscard]] size_t missing() const { return *this ? draft_.size() - filled_ : 0; }
    /// Returns the place for the missing bytes.
    uint8_t* room() { return reinterpret_cast<uint8_t*>(draft_.bytes()) + filled_; }
    /// Records that `count` bytes at room() have arrived.
    void commit(size_t count) { filled_ += count; }

    /// Returns the request. Its views are valid as long as this object and the Blob.
    [[nodiscard]] protocol::FrameView view() const;
    /// Returns the value. Nothing may be missing, and the caller must be bound to the bucket's
    /// memory.
    BlobPtr takeValue() { return std::move(draft_).finish(); }

  private:
    LargeRequest(protocol::Bytes head, size_t valueSize, BucketMemory& owner);
    void drop() noexcept;

    ByteBuffer head_;  ///< header, framing extras, extras and key
    BlobDraft draft_;
    size_t filled_{0};
    BucketMemory* owner_{nullptr};  ///< nullptr: no request
};

}  // namespace kv::server
