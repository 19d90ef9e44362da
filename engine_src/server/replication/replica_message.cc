#include "server/replication/replica_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bucket/failover_log.h"
#include "protocol/dcp.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;

namespace {

/// Throws if a number is too large: the copy would have no room for its own numbers after a
/// promotion, or the upper bits of the number would be lost.
void check(bool possible, const char* what) {
    if (!possible) {
        throw std::runtime_error(fmt::format("a {} out of range", what));
    }
}

protocol::DcpSnapshotMarker toMarker(const FrameView& frame) {
    const bool hasVersion = frame.extras.size() == 1;
    if (!hasVersion && frame.value.empty()) {
        return protocol::decodeDcpSnapshotMarker(frame.extras);
    }
    if (!hasVersion || frame.extras[0] != protocol::kMarkerVersion22 ||
        frame.value.size() != protocol::kMarkerVersion22Bytes) {
        throw std::runtime_error("a snapshot marker of a version that was not requested");
    }
    return protocol::decodeDcpSnapshotMarkerV22(frame.value);
}

ItemPtr toItem(const FrameView& frame, ItemOp op) {
    const auto document = op == ItemOp::Mutation ? protocol::decodeDcpMutation(frame.extras)
                                                 : protocol::decodeDcpDeletion(frame.extras);
    check(document.seqno < kSeqnoBound, "seqno");
    check(document.revSeqno < kRevSeqnoBound, "revision");
    check(frame.header.cas < kCasBound, "CAS");
    const ItemMeta meta{.cas = Cas{frame.header.cas},
                        .seqno = Seqno{document.seqno},
                        .revSeqno = document.revSeqno,
                        .flags = document.flags,
                        .exptime = op == ItemOp::Mutation ? document.expiry : document.deleteTime,
                        .datatype = frame.header.datatype};
    return Item::create(Vbid{frame.header.vbucket()}, op, frame.keyText(), meta,
                        op == ItemOp::Mutation ? Blob::create(frame.valueText()) : BlobPtr{});
}

}  // namespace

dcp::Message toMessage(const FrameView& frame) {
    const Vbid vbid{frame.header.vbucket()};
    const uint32_t opaque = frame.header.opaque;
    switch (frame.header.opcode) {
        case Opcode::kDcpSnapshotMarker: {
            const auto marker = toMarker(frame);
            check(marker.end < kSeqnoBound && marker.purged < kSeqnoBound, "seqno");
            return dcp::Message::marker(vbid, opaque, Seqno{marker.start}, Seqno{marker.end},
                                        marker.flags, Seqno{marker.purged});
        }
        case Opcode::kDcpMutation:
            return dcp::Message::document(opaque, toItem(frame, ItemOp::Mutation));
        case Opcode::kDcpDeletion:
            return dcp::Message::document(
                    opaque, toItem(frame, ItemOp::Deletion),
                    {.deleteTimes = frame.extras.size() == 21, .expirations = true});
        case Opcode::kDcpExpiration:
            return dcp::Message::document(opaque, toItem(frame, ItemOp::Expiration));
        case Opcode::kDcpStreamEnd:
            return dcp::Message::streamEnd(
                    vbid, opaque, static_cast<dcp::EndStatus>(protocol::decodeU32(frame.extras)));
        default:
            throw std::runtime_error("unexpected request " +
                                     std::string(protocol::toString(frame.header.opcode)));
    }
}

std::vector<FailoverEntry> toFailoverLog(protocol::Bytes bytes) {
    constexpr size_t kEntry = 2 * sizeof(uint64_t);
    if (bytes.size() % kEntry != 0) {
        throw std::runtime_error("a broken failover log");
    }
    bytes = bytes.first(std::min(bytes.size(), FailoverLog::kMaxEntries * kEntry));  // the newest
    std::vector<FailoverEntry> log;
    for (size_t at = 0; at < bytes.size(); at += kEntry) {
        log.push_back({VbUuid{loadBig<uint64_t>(bytes.data() + at)},
                       Seqno{loadBig<uint64_t>(bytes.data() + at + sizeof(uint64_t))}});
    }
    return log;
}

}  // namespace kv::server
