#include "dcp/passive_stream.h"

#include <utility>

namespace kv::dcp {
namespace {

/// Seconds by which the clocks of two hosts may differ. Within it all copies have the time of the
/// source.
constexpr uint32_t kClockDifference = 60;

}  // namespace

Applied PassiveStream::receive(Message message, bool hold, const OpTime& now,
                               size_t& appliedBytes) {
    const std::scoped_lock lock(mutex_);
    if (closed_) {
        appliedBytes += message.wireSize();
        return Applied::Ok;
    }
    if (hold || !buffer_.empty()) {
        buffer_.push_back(std::move(message));
        return Applied::Ok;
    }
    appliedBytes += message.wireSize();
    return apply(message, now);
}

Applied PassiveStream::processBuffered(size_t limit, const OpTime& now, size_t& appliedBytes) {
    const std::scoped_lock lock(mutex_);
    for (size_t done = 0; done < limit && !buffer_.empty(); ++done) {
        // If memory is short, it stays the first: a later attempt begins with it.
        const Applied applied = apply(buffer_.front(), now);
        appliedBytes += buffer_.front().wireSize();
        buffer_.pop_front();
        if (applied != Applied::Ok) {
            return applied;
        }
    }
    return Applied::Ok;
}

size_t PassiveStream::close() {
    std::deque<Message> dropped;
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    dropped.swap(buffer_);
    size_t bytes = 0;
    for (const Message& message : dropped) {
        bytes += message.wireSize();
    }
    return bytes;
}

Applied PassiveStream::apply(const Message& message, const OpTime& now) {
    if (message.kind == MessageKind::StreamEnd) {
        ended_ = static_cast<EndStatus>(message.detail);
        return Applied::Ended;
    }
    if (message.kind == MessageKind::SnapshotMarker) {
        if (message.start > message.end || message.end <= vbucket_.highSeqno()) {
            return Applied::Refused;
        }
        // A marker begins where its sender takes this copy to be consistent; the log knows which
        // part is already here.
        const SnapshotRange range{std::max(message.start, kv::next(vbucket_.highSeqno())),
                                  message.end};
        const bool disk = (message.detail & kMarkerDisk) != 0;
        const OpStatus status = vbucket_.beginReplicated(
                term_, range, disk ? CheckpointType::Disk : CheckpointType::Memory, now,
                message.purged);
        snapshotEnd_ = message.end;
        return status == OpStatus::Ok ? Applied::Ok : Applied::Refused;
    }
    const Item& item = *message.item;
    if (item.seqno() <= vbucket_.highSeqno() || item.seqno() > snapshotEnd_) {
        return Applied::Refused;
    }
    // A source need not send the time of a deletion, and a tombstone without a time would be purged
    // at once. One from the future, of a source whose clock is far ahead, would be kept until then.
    const bool untimed = item.isDeletion() &&
                         (item.exptime() == 0 || item.exptime() > now.seconds + kClockDifference);
    const ItemMeta meta{.cas = item.cas(),
                        .seqno = item.seqno(),
                        .revSeqno = item.revSeqno(),
                        .flags = item.flags(),
                        .exptime = untimed ? now.seconds : item.exptime(),
                        .datatype = item.datatype()};
    const OpStatus status =
            vbucket_.applyReplicated(term_, item.key(), item.op(), meta, item.blob(), now);
    return status == OpStatus::Ok ? Applied::Ok : Applied::Refused;
}

}  // namespace kv::dcp
