#include "server/replication/dcp_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bucket/failover_log.h"
#include "protocol/dcp.h"

namespace kv::server {

using protocol::Bytes;
using protocol::FrameSpec;
using protocol::FrameView;
using protocol::Opcode;

namespace {

void append(Output& out, const FrameSpec& frame) {
    uint8_t* to = out.reserve(frame.size());
    out.commit(protocol::writeFrame(to, frame));
}

/// Header and extras are small and built on the stack; key and a small value are copied once, from
/// the item. Copies of large values would keep other connections waiting.
void appendDocument(Output& out, const dcp::Message& message, Opcode opcode, Bytes extras,
                    BucketMemory& owner) {
    const Item& item = *message.item;
    const FrameSpec frame{
            .opcode = opcode,
            .vbucketOrStatus = message.vbid.get(),
            .opaque = message.opaque,
            .cas = item.cas().get(),
            .datatype = item.isDeletion() ? protocol::Datatype::kRaw : item.datatype(),
            .extras = extras,
            .key = protocol::asBytes(item.key()),
            .value = protocol::asBytes(item.value())};
    if (frame.value.size() < Output::kShareFrom) [[likely]] {
        append(out, frame);
        return;
    }
    uint8_t* to = out.reserve(frame.size() - frame.value.size());
    out.commit(protocol::writeHead(to, frame));
    out.share(item.blob(), owner);
}

void appendPlain(Output& out, const dcp::Message& message, Opcode opcode, Bytes extras) {
    append(out, {.opcode = opcode,
                 .vbucketOrStatus = message.vbid.get(),
                 .opaque = message.opaque,
                 .extras = extras});
}

void appendMarker(Output& out, const dcp::Message& message) {
    const protocol::DcpSnapshotMarker marker{message.start.get(), message.end.get(), message.detail,
                                             message.purged.get()};
    if (message.purged == Seqno{}) {
        appendPlain(out, message, Opcode::kDcpSnapshotMarker,
                    protocol::encodeDcpSnapshotMarker(marker));
        return;
    }
    append(out, {.opcode = Opcode::kDcpSnapshotMarker,
                 .vbucketOrStatus = message.vbid.get(),
                 .opaque = message.opaque,
                 .extras = Bytes(&protocol::kMarkerVersion22, 1),
                 .value = protocol::encodeDcpSnapshotMarkerV22(marker)});
}

protocol::DcpDocument documentOf(const Item& item) {
    return {.seqno = item.seqno().get(),
            .revSeqno = item.revSeqno(),
            .flags = item.flags(),
            .expiry = item.exptime(),
            .deleteTime = item.exptime()};
}

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

void appendDcpMessage(Output& out, const dcp::Message& message, BucketMemory& owner) {
    switch (message.kind) {
        case dcp::MessageKind::SnapshotMarker:
            appendMarker(out, message);
            break;
        case dcp::MessageKind::Mutation:
            appendDocument(out, message, Opcode::kDcpMutation,
                           protocol::encodeDcpMutation(documentOf(*message.item)), owner);
            break;
        case dcp::MessageKind::Deletion:
            if (message.detail != 0) {
                appendDocument(out, message, Opcode::kDcpDeletion,
                               protocol::encodeDcpDeletionV2(documentOf(*message.item)), owner);
            } else {
                appendDocument(out, message, Opcode::kDcpDeletion,
                               protocol::encodeDcpDeletion(documentOf(*message.item)), owner);
            }
            break;
        case dcp::MessageKind::Expiration:
            appendDocument(out, message, Opcode::kDcpExpiration,
                           protocol::encodeDcpExpiration(documentOf(*message.item)), owner);
            break;
        case dcp::MessageKind::StreamEnd:
            appendPlain(out, message, Opcode::kDcpStreamEnd, protocol::encodeU32(message.detail));
            break;
    }
}

void appendDcpNoop(Output& out) {
    append(out, {.opcode = Opcode::kDcpNoop});
}

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
