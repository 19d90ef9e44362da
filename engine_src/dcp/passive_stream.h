// PassiveStream: one vBucket's stream on the receiving side: applies what the producer sent to the
// replica, in order, and holds it back while memory is short.
//
// Ownership: shared by the consumer's slot and whoever processes it; the VBucket outlives it.
// Threads: any; a mutex keeps messages in their order. Memory: everything runs under a
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
    /// Made before it is asked for: what the request says of the vBucket is of the same term.
    PassiveStream(VBucket& vbucket, uint32_t opaque)
        : vbucket_(vbucket), opaque_(opaque), term_(vbucket.term()) {}

    /// Applies `message`, or buffers it behind others or because of `hold`. Bytes that were applied
    /// are added to `appliedBytes`.
    Applied receive(Message message, bool hold, const OpTime& now, size_t& appliedBytes);
    /// Applies up to `limit` buffered messages. Throws std::bad_alloc; what was applied by then is
    /// in `appliedBytes`, the rest is still there.
    Applied processBuffered(size_t limit, const OpTime& now, size_t& appliedBytes);
    /// Applies nothing from now on; returns the bytes that were held back, which are dropped.
    size_t close();
    [[nodiscard]] size_t buffered() const {
        const std::scoped_lock lock(mutex_);
        return buffer_.size();
    }
    [[nodiscard]] Vbid vbid() const { return vbucket_.id(); }
    [[nodiscard]] uint32_t opaque() const { return opaque_; }
    /// The vBucket's, that it was made in.
    [[nodiscard]] uint64_t term() const { return term_; }
    /// Why it ended, once receive() or processBuffered() has said so.
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
