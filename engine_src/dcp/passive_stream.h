// PassiveStream: one vBucket's stream on the receiving side. It applies the producer's messages to
// the replica in order, and holds them back while memory is short.
//
// Ownership: shared by the consumer's slot and the thread that processes it; the VBucket outlives
// it. Threads: any; a mutex keeps messages in order. Memory: everything runs under a
// BucketMemoryGuard of the bucket.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "bucket/vbucket.h"
#include "dcp/message.h"

namespace kv::dcp {

enum class Applied : uint8_t {
    Ok,
    Ended,    ///< the producer ended the stream
    Refused,  ///< the message does not fit the stream or the vBucket: the stream is broken
};

class PassiveStream {
  public:
    /// Create it before the stream is requested, so that the request describes the vBucket in the
    /// same term.
    PassiveStream(VBucket& vbucket, uint32_t opaque)
        : vbucket_(vbucket), opaque_(opaque), term_(vbucket.term()) {}

    /// Applies `message`, or buffers it behind others or because of `hold`. Adds the applied bytes
    /// to `appliedBytes`.
    Applied receive(Message message, bool hold, const OpTime& now, size_t& appliedBytes);
    /// Applies up to `limit` buffered messages. Throws std::bad_alloc; `appliedBytes` then counts
    /// those applied, and the rest is still there.
    Applied processBuffered(size_t limit, const OpTime& now, size_t& appliedBytes);
    /// Applies nothing from now on. Drops the messages that were held back and returns their bytes.
    size_t close();
    [[nodiscard]] size_t buffered() const {
        const std::scoped_lock lock(mutex_);
        return buffer_.size();
    }
    [[nodiscard]] Vbid vbid() const { return vbucket_.id(); }
    [[nodiscard]] uint32_t opaque() const { return opaque_; }
    /// The reason of the end, after receive() or processBuffered() has returned Ended.
    [[nodiscard]] std::optional<EndStatus> ended() const {
        const std::scoped_lock lock(mutex_);
        return ended_;
    }

  private:
    Applied apply(const Message& message, const OpTime& now);

    VBucket& vbucket_;
    const uint32_t opaque_;
    const uint64_t term_;
    mutable std::mutex mutex_;
    std::deque<Message> buffer_;
    Seqno snapshotEnd_{};
    std::optional<EndStatus> ended_;
    bool closed_{false};
};

}  // namespace kv::dcp
