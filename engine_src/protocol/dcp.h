// DCP on the wire: the extras of its requests and messages as plain numbers. Decoders take bytes
// whose length request_rules.h has checked; encoders return the bytes for the wire. Pure functions;
// any thread.
#pragma once

#include <cstdint>

#include "protocol/extras.h"

namespace kv::protocol {

/// Bits of the open request.
namespace dcp_open {
inline constexpr uint32_t kProducer = 0x01;
inline constexpr uint32_t kDeleteTimes = 0x20;
}  // namespace dcp_open

/// Bits of a stream request.
namespace dcp_stream {
inline constexpr uint32_t kDiskOnly = 0x02;
inline constexpr uint32_t kToLatest = 0x04;
inline constexpr uint32_t kActiveOnly = 0x10;
inline constexpr uint32_t kStrictUuid = 0x20;
}  // namespace dcp_stream

struct DcpStreamRequest {
    uint32_t flags{0};
    uint64_t start{0};
    uint64_t end{0};
    uint64_t uuid{0};
    uint64_t snapshotStart{0};
    uint64_t snapshotEnd{0};
};

constexpr uint32_t decodeDcpOpenFlags(Bytes extras) noexcept {
    return loadBig<uint32_t>(extras.data() + 4);
}

constexpr Encoded<8> encodeDcpOpen(uint32_t flags) noexcept {
    Encoded<8> out{};
    storeBig(out.data() + 4, flags);
    return out;
}

constexpr DcpStreamRequest decodeDcpStreamRequest(Bytes extras) noexcept {
    return {loadBig<uint32_t>(extras.data()),      loadBig<uint64_t>(extras.data() + 8),
            loadBig<uint64_t>(extras.data() + 16), loadBig<uint64_t>(extras.data() + 24),
            loadBig<uint64_t>(extras.data() + 32), loadBig<uint64_t>(extras.data() + 40)};
}

constexpr Encoded<48> encodeDcpStreamRequest(const DcpStreamRequest& request) noexcept {
    Encoded<48> out{};
    storeBig(out.data(), request.flags);
    storeBig(out.data() + 8, request.start);
    storeBig(out.data() + 16, request.end);
    storeBig(out.data() + 24, request.uuid);
    storeBig(out.data() + 32, request.snapshotStart);
    storeBig(out.data() + 40, request.snapshotEnd);
    return out;
}

struct DcpSnapshotMarker {
    uint64_t start{0};
    uint64_t end{0};
    uint32_t flags{0};   ///< 1 memory, 2 disk, 4 checkpoint, 8 acknowledge
    uint64_t purged{0};  ///< version 2.2
};

constexpr Encoded<20> encodeDcpSnapshotMarker(const DcpSnapshotMarker& marker) noexcept {
    Encoded<20> out{};
    storeBig(out.data(), marker.start);
    storeBig(out.data() + 8, marker.end);
    storeBig(out.data() + 16, marker.flags);
    return out;
}

constexpr DcpSnapshotMarker decodeDcpSnapshotMarker(Bytes extras) noexcept {
    return {loadBig<uint64_t>(extras.data()), loadBig<uint64_t>(extras.data() + 8),
            loadBig<uint32_t>(extras.data() + 16), 0};
}

/// Version 2.2 of a marker: the extras hold only the version number, and the value holds the rest.
inline constexpr uint8_t kMarkerVersion22 = 2;
inline constexpr size_t kMarkerVersion22Bytes = 52;

/// The value. Every mutation is visible at once here, so no prepared or completed ones are listed.
constexpr Encoded<kMarkerVersion22Bytes> encodeDcpSnapshotMarkerV22(
        const DcpSnapshotMarker& marker) noexcept {
    Encoded<kMarkerVersion22Bytes> out{};
    storeBig(out.data(), marker.start);
    storeBig(out.data() + 8, marker.end);
    storeBig(out.data() + 16, marker.flags);
    storeBig(out.data() + 20, marker.end);  // highest visible; completed and prepared are 0
    storeBig(out.data() + 44, marker.purged);
    return out;
}

constexpr DcpSnapshotMarker decodeDcpSnapshotMarkerV22(Bytes value) noexcept {
    DcpSnapshotMarker marker = decodeDcpSnapshotMarker(value);
    marker.purged = loadBig<uint64_t>(value.data() + 44);
    return marker;
}

/// The extras of a mutation, deletion or expiration.
struct DcpDocument {
    uint64_t seqno{0};
    uint64_t revSeqno{0};
    uint32_t flags{0};       ///< mutation
    uint32_t expiry{0};      ///< mutation
    uint32_t deleteTime{0};  ///< deletion (only if 21 bytes were requested) and expiration
};

constexpr Encoded<31> encodeDcpMutation(const DcpDocument& document) noexcept {
    Encoded<31> out{};
    storeBig(out.data(), document.seqno);
    storeBig(out.data() + 8, document.revSeqno);
    storeBig(out.data() + 16, document.flags);
    storeBig(out.data() + 20, document.expiry);
    return out;  // lock time, extended metadata and NRU are 0
}

constexpr DcpDocument decodeDcpMutation(Bytes extras) noexcept {
    return {loadBig<uint64_t>(extras.data()), loadBig<uint64_t>(extras.data() + 8),
            loadBig<uint32_t>(extras.data() + 16), loadBig<uint32_t>(extras.data() + 20), 0};
}

/// Version 1: 18 bytes, without the time of the deletion.
constexpr Encoded<18> encodeDcpDeletion(const DcpDocument& document) noexcept {
    Encoded<18> out{};
    storeBig(out.data(), document.seqno);
    storeBig(out.data() + 8, document.revSeqno);
    return out;
}

/// Version 2, for connections opened with kDeleteTimes.
constexpr Encoded<21> encodeDcpDeletionV2(const DcpDocument& document) noexcept {
    Encoded<21> out{};
    storeBig(out.data(), document.seqno);
    storeBig(out.data() + 8, document.revSeqno);
    storeBig(out.data() + 16, document.deleteTime);
    return out;
}

constexpr Encoded<20> encodeDcpExpiration(const DcpDocument& document) noexcept {
    Encoded<20> out{};
    storeBig(out.data(), document.seqno);
    storeBig(out.data() + 8, document.revSeqno);
    storeBig(out.data() + 16, document.deleteTime);
    return out;
}

/// Both versions of a deletion, and an expiration.
constexpr DcpDocument decodeDcpDeletion(Bytes extras) noexcept {
    const bool timed = extras.size() >= 20;
    return {loadBig<uint64_t>(extras.data()), loadBig<uint64_t>(extras.data() + 8), 0, 0,
            timed ? loadBig<uint32_t>(extras.data() + 16) : 0};
}

}  // namespace kv::protocol
