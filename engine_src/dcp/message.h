// Messages of a DCP producer before they are encoded: the server turns each into one frame.
//
// Sizes are those on the wire (header 24 bytes, extras, key, value): flow control counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "types/ids.h"
#include "types/item.h"

namespace kv::dcp {

enum class MessageKind : uint8_t { SnapshotMarker, Mutation, Deletion, Expiration, StreamEnd };

/// Why a stream ended, as on the wire.
enum class EndStatus : uint32_t {
    Ok = 0,
    Closed = 1,
    StateChanged = 2,
    Disconnected = 3,
    Slow = 4,
    BackfillFailed = 5,
    Rollback = 6,
};

/// Bits of a snapshot marker's type, as on the wire.
enum MarkerFlag : uint32_t { kMarkerMemory = 1, kMarkerDisk = 2, kMarkerCheckpoint = 4 };

/// The options that the client requested when it opened the connection.
struct MessageFormat {
    bool deleteTimes{false};  ///< deletions carry the time of the deletion
    /// Expirations have their own opcode; otherwise they are sent as deletions.
    bool expirations{true};
    bool purges{false};  ///< markers contain the seqno up to which deletions may be missing
};

struct Message {
    MessageKind kind{MessageKind::SnapshotMarker};
    Vbid vbid{};
    uint32_t opaque{0};  ///< of the stream request
    ItemPtr item;        ///< Mutation, Deletion, Expiration
    /// SnapshotMarker: the client is consistent here; the snapshot's documents follow.
    Seqno start{};
    Seqno end{};  ///< SnapshotMarker: last seqno, at which the client is consistent again
    /// SnapshotMarker: MarkerFlag bits; StreamEnd: EndStatus; Deletion: 1 with its time, otherwise
    /// 0
    uint32_t detail{0};
    /// SnapshotMarker: no deletion above it is missing at the source, one below may be; 0: none is,
    /// or the client did not request it.
    Seqno purged{};

    static Message marker(Vbid vbid, uint32_t opaque, Seqno start, Seqno end, uint32_t flags,
                          Seqno purged = {}) {
        return {MessageKind::SnapshotMarker, vbid, opaque, {}, start, end, flags, purged};
    }
    static Message streamEnd(Vbid vbid, uint32_t opaque, EndStatus status) {
        return {MessageKind::StreamEnd,        vbid, opaque, {}, {}, {},
                static_cast<uint32_t>(status), {}};
    }
    /// Returns the message of a document.
    static Message document(uint32_t opaque, ItemPtr item, MessageFormat format = {}) {
        const auto kind = item->op() == ItemOp::Mutation ? MessageKind::Mutation
                          : item->op() == ItemOp::Expiration && format.expirations
                                  ? MessageKind::Expiration
                                  : MessageKind::Deletion;
        const bool timed = kind == MessageKind::Deletion && format.deleteTimes;
        const Vbid vbid = item->vbid();
        return {kind, vbid, opaque, std::move(item), {}, {}, timed ? 1U : 0U, {}};
    }

    /// Bytes of the frame on the wire.
    [[nodiscard]] size_t wireSize() const {
        constexpr size_t kHeader = 24;
        const auto body = [this] { return item->key().size() + item->value().size(); };
        switch (kind) {
            case MessageKind::SnapshotMarker:
                return kHeader + (purged != Seqno{} ? 1 + 52 : 20);
            case MessageKind::Mutation:
                return kHeader + 31 + body();
            case MessageKind::Deletion:
                return kHeader + (detail != 0 ? 21 : 18) + body();
            case MessageKind::Expiration:
                return kHeader + 20 + body();
            case MessageKind::StreamEnd:
                return kHeader + 4;
        }
        return kHeader;
    }
};

}  // namespace kv::dcp
