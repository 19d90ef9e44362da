// LargeRequest: a large request under way whose value is read from the socket into the Blob that
// the bucket will keep, so that it is copied once, by the kernel.
//
// One front-end thread. The Blob is charged to the bucket from the beginning and given back,
// whatever becomes of the request; the bucket outlives it. Whether a request is read in this way is
// decided by start(); how it is answered does not depend on it.
#pragma once

#include "memory/bucket_memory.h"
#include "server/byte_buffer.h"
#include "server/server_context.h"
#include "server/session.h"
#include "types/blob.h"

namespace kv::server {

class LargeRequest {
  public:
    /// A value up to here gets its Blob as soon as its key is known, a larger one when half of it
    /// is there: what a connection holds depends on what it has sent.
    static constexpr size_t kAtOnce = size_t{1} << 20;

    LargeRequest() = default;
    /// Takes over the request at the front of `input`, all that is there of it, if it is incomplete
    /// and a command of this session that keeps values, and if the bucket has room beneath its high
    /// watermark. Else, and for want of memory, the result is empty.
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
    /// Memory that is held, bytes.
    [[nodiscard]] size_t held() const {
        return *this ? head_.capacity() + Blob::allocationSize(draft_.size()) : 0;
    }
    /// Bytes of the value still to come.
    [[nodiscard]] size_t missing() const { return *this ? draft_.size() - filled_ : 0; }
    /// Where they belong.
    uint8_t* room() { return reinterpret_cast<uint8_t*>(draft_.bytes()) + filled_; }
    /// `count` bytes at room() have come.
    void commit(size_t count) { filled_ += count; }

    /// The request; its views are valid as long as this and the Blob are.
    [[nodiscard]] protocol::FrameView view() const;
    /// The value. Nothing may be missing; the caller is bound to the bucket's memory.
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
