#pragma once

// Opcodes and magics of the memcached binary protocol with Couchbase's extensions. The numbers are
// those of the wire; nothing here knows what a command does.

#include <cstdint>
#include <string_view>

namespace kv::protocol {

// First byte of every frame: the sender, and the layout of the length bytes.
enum class Magic : std::uint8_t {
    kClientRequest = 0x80,
    kClientResponse = 0x81,
    // "Flexible framing": byte 2 is the length of the framing extras, byte 3 that of the key.
    kAltClientRequest = 0x08,
    kAltClientResponse = 0x18,
    // Duplex: the server asks and the client answers.
    kServerRequest = 0x82,
    kServerResponse = 0x83,
};

enum class Opcode : std::uint8_t {
    kGet = 0x00,
    kSet = 0x01,
    kAdd = 0x02,
    kReplace = 0x03,
    kDelete = 0x04,
    kIncrement = 0x05,
    kDecrement = 0x06,
    kQuit = 0x07,
    kFlush = 0x08,
    kGetQ = 0x09,
    kNoop = 0x0a,
    kVersion = 0x0b,
    kGetK = 0x0c,
    kGetKQ = 0x0d,
    kAppend = 0x0e,
    kPrepend = 0x0f,
    kStat = 0x10,
    kSetQ = 0x11,
    kAddQ = 0x12,
    kReplaceQ = 0x13,
    kDeleteQ = 0x14,
    kIncrementQ = 0x15,
    kDecrementQ = 0x16,
    kQuitQ = 0x17,
    kFlushQ = 0x18,
    kAppendQ = 0x19,
    kPrependQ = 0x1a,
    kVerbosity = 0x1b,
    kTouch = 0x1c,
    kGat = 0x1d,
    kGatQ = 0x1e,
    kHello = 0x1f,
    kSaslListMechs = 0x20,
    kSaslAuth = 0x21,
    kSaslStep = 0x22,
    kGatK = 0x23,
    kGatKQ = 0x24,
    kSetVBucket = 0x3d,
    kGetVBucket = 0x3e,
    kDelVBucket = 0x3f,
    kGetAllVBSeqnos = 0x48,
    kDcpOpen = 0x50,
    kDcpAddStream = 0x51,
    kDcpCloseStream = 0x52,
    kDcpStreamReq = 0x53,
    kDcpGetFailoverLog = 0x54,
    kDcpStreamEnd = 0x55,
    kDcpSnapshotMarker = 0x56,
    kDcpMutation = 0x57,
    kDcpDeletion = 0x58,
    kDcpExpiration = 0x59,
    kDcpSetVBucketState = 0x5b,
    kDcpNoop = 0x5c,
    kDcpBufferAck = 0x5d,
    kDcpControl = 0x5e,
    kDcpSystemEvent = 0x5f,
    kStopPersistence = 0x80,
    kStartPersistence = 0x81,
    kSetParam = 0x82,
    kGetReplica = 0x83,
    kCreateBucket = 0x85,
    kDeleteBucket = 0x86,
    kListBuckets = 0x87,
    kSelectBucket = 0x89,
    kObserveSeqno = 0x91,
    kObserve = 0x92,
    kEvictKey = 0x93,
    kGetLocked = 0x94,
    kUnlockKey = 0x95,
    kGetFailoverLog = 0x96,
    kGetMeta = 0xa0,
    kGetMetaQ = 0xa1,
    kSetWithMeta = 0xa2,
    kSetWithMetaQ = 0xa3,
    kAddWithMeta = 0xa4,
    kAddWithMetaQ = 0xa5,
    kDeleteWithMeta = 0xa8,
    kDeleteWithMetaQ = 0xa9,
    kEnableTraffic = 0xad,
    kDisableTraffic = 0xae,
    kCompactDb = 0xb3,
    kSetClusterConfig = 0xb4,
    kGetClusterConfig = 0xb5,
    kGetRandomKey = 0xb6,
    kSeqnoPersistence = 0xb7,
    kGetKeys = 0xb8,
    kSetCollectionsManifest = 0xb9,
    kGetCollectionsManifest = 0xba,
    kGetCollectionId = 0xbb,
    kGetScopeId = 0xbc,
    kSubdocGet = 0xc5,
    kSubdocExists = 0xc6,
    kSubdocMultiLookup = 0xd0,
    kSubdocMultiMutation = 0xd1,
    kSubdocGetCount = 0xd2,
    kGetErrorMap = 0xfe,
};

constexpr std::uint8_t raw(Magic magic) noexcept {
    return static_cast<std::uint8_t>(magic);
}
constexpr std::uint8_t raw(Opcode opcode) noexcept {
    return static_cast<std::uint8_t>(opcode);
}

constexpr bool isKnownMagic(std::uint8_t byte) noexcept {
    switch (static_cast<Magic>(byte)) {
        case Magic::kClientRequest:
        case Magic::kClientResponse:
        case Magic::kAltClientRequest:
        case Magic::kAltClientResponse:
        case Magic::kServerRequest:
        case Magic::kServerResponse:
            return true;
    }
    return false;
}

// Requests carry a vBucket in bytes 6 and 7, responses a status.
constexpr bool isRequest(Magic magic) noexcept {
    return magic == Magic::kClientRequest || magic == Magic::kAltClientRequest ||
           magic == Magic::kServerRequest;
}

constexpr bool isAlt(Magic magic) noexcept {
    return magic == Magic::kAltClientRequest || magic == Magic::kAltClientResponse;
}

// True for the "Q" forms: no answer on success (GetQ, GetKQ, GatQ, GatKQ: no answer on a miss).
constexpr bool isQuiet(Opcode opcode) noexcept {
    switch (opcode) {
        case Opcode::kGetQ:
        case Opcode::kGetKQ:
        case Opcode::kGatQ:
        case Opcode::kGatKQ:
        case Opcode::kGetMetaQ:
        case Opcode::kSetWithMetaQ:
        case Opcode::kAddWithMetaQ:
        case Opcode::kDeleteWithMetaQ:
            return true;
        default:
            return opcode >= Opcode::kSetQ && opcode <= Opcode::kPrependQ;
    }
}

// Short lower-case name for logs and STAT timings ("get", "set_q", ...); "unknown" if not listed.
std::string_view toString(Opcode opcode) noexcept;

}  // namespace kv::protocol
