#include "server/replication/dcp_frames.h"

#include "protocol/dcp.h"

namespace kv::server {

using protocol::Bytes;
using protocol::FrameSpec;
using protocol::Opcode;

namespace {

void append(Output& out, const FrameSpec& frame) {
    uint8_t* to = out.reserve(frame.size());
    out.commit(protocol::writeFrame(to, frame));
}

/// Header and extras are small and built on the stack; key and value are copied once, from the
/// item.
void appendDocument(Output& out, const dcp::Message& message, Opcode opcode, Bytes extras) {
    const Item& item = *message.item;
    append(out, {.opcode = opcode,
                 .vbucketOrStatus = message.vbid.get(),
                 .opaque = message.opaque,
                 .cas = item.cas().get(),
                 .datatype = item.isDeletion() ? protocol::Datatype::kRaw : item.datatype(),
                 .extras = extras,
                 .key = protocol::asBytes(item.key()),
                 .value = protocol::asBytes(item.value())});
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

}  // namespace

void appendDcpMessage(Output& out, const dcp::Message& message) {
    switch (message.kind) {
        case dcp::MessageKind::SnapshotMarker:
            appendMarker(out, message);
            break;
        case dcp::MessageKind::Mutation:
            appendDocument(out, message, Opcode::kDcpMutation,
                           protocol::encodeDcpMutation(documentOf(*message.item)));
            break;
        case dcp::MessageKind::Deletion:
            if (message.detail != 0) {
                appendDocument(out, message, Opcode::kDcpDeletion,
                               protocol::encodeDcpDeletionV2(documentOf(*message.item)));
            } else {
                appendDocument(out, message, Opcode::kDcpDeletion,
                               protocol::encodeDcpDeletion(documentOf(*message.item)));
            }
            break;
        case dcp::MessageKind::Expiration:
            appendDocument(out, message, Opcode::kDcpExpiration,
                           protocol::encodeDcpExpiration(documentOf(*message.item)));
            break;
        case dcp::MessageKind::StreamEnd:
            appendPlain(out, message, Opcode::kDcpStreamEnd, protocol::encodeU32(message.detail));
            break;
    }
}

void appendDcpNoop(Output& out) {
    append(out, {.opcode = Opcode::kDcpNoop});
}

}  // namespace kv::server
