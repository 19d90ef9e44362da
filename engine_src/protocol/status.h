#pragma once

// Status codes, datatype bits and HELLO features of the wire. Only numbers; see opcodes.h.

#include <cstdint>
#include <string_view>

namespace kv::protocol {

enum class Status : std::uint16_t {
    kSuccess = 0x00,
    kKeyEnoent = 0x01,
    kKeyEexists = 0x02,
    kE2big = 0x03,
    kEinval = 0x04,
    kNotStored = 0x05,
    kDeltaBadval = 0x06,
    kNotMyVbucket = 0x07,
    kNoBucket = 0x08,
    kLocked = 0x09,
    kNotLocked = 0x0e,
    kAuthStale = 0x1f,
    kAuthError = 0x20,
    kAuthContinue = 0x21,
    kErange = 0x22,
    kRollback = 0x23,
    kEaccess = 0x24,
    kUnknownFrameInfo = 0x80,
    kUnknownCommand = 0x81,
    kEnomem = 0x82,
    kNotSupported = 0x83,
    kEinternal = 0x84,
    kEbusy = 0x85,
    kEtmpfail = 0x86,
    kXattrEinval = 0x87,
    kUnknownCollection = 0x88,
    kUnknownScope = 0x8c,
    kDurabilityInvalidLevel = 0xa0,
    kDurabilityImpossible = 0xa1,
    kSyncWriteInProgress = 0xa2,
    kSyncWriteAmbiguous = 0xa3,
    kSubdocPathEnoent = 0xc0,
    kSubdocPathMismatch = 0xc1,
    kSubdocPathEinval = 0xc2,
    kSubdocInvalidCombo = 0xcb,
    kSubdocMultiPathFailure = 0xcc,
    kSubdocXattrUnknownVattr = 0xd1,
};

constexpr std::uint16_t raw(Status status) noexcept {
    return static_cast<std::uint16_t>(status);
}

// Returns a name for logs ("Success", "KeyEnoent", ...), or "unknown" for a number that is not
// listed.
constexpr std::string_view toString(Status status) noexcept {
    switch (status) {
        case Status::kSuccess:
            return "Success";
        case Status::kKeyEnoent:
            return "KeyEnoent";
        case Status::kKeyEexists:
            return "KeyEexists";
        case Status::kE2big:
            return "E2big";
        case Status::kEinval:
            return "Einval";
        case Status::kNotStored:
            return "NotStored";
        case Status::kDeltaBadval:
            return "DeltaBadval";
        case Status::kNotMyVbucket:
            return "NotMyVbucket";
        case Status::kNoBucket:
            return "NoBucket";
        case Status::kLocked:
            return "Locked";
        case Status::kNotLocked:
            return "NotLocked";
        case Status::kAuthStale:
            return "AuthStale";
        case Status::kAuthError:
            return "AuthError";
        case Status::kAuthContinue:
            return "AuthContinue";
        case Status::kErange:
            return "Erange";
        case Status::kRollback:
            return "Rollback";
        case Status::kEaccess:
            return "Eaccess";
        case Status::kUnknownFrameInfo:
            return "UnknownFrameInfo";
        case Status::kUnknownCommand:
            return "UnknownCommand";
        case Status::kEnomem:
            return "Enomem";
        case Status::kNotSupported:
            return "NotSupported";
        case Status::kEinternal:
            return "Einternal";
        case Status::kEbusy:
            return "Ebusy";
        case Status::kEtmpfail:
            return "Etmpfail";
        case Status::kXattrEinval:
            return "XattrEinval";
        case Status::kUnknownCollection:
            return "UnknownCollection";
        case Status::kUnknownScope:
            return "UnknownScope";
        case Status::kDurabilityInvalidLevel:
            return "DurabilityInvalidLevel";
        case Status::kDurabilityImpossible:
            return "DurabilityImpossible";
        case Status::kSyncWriteInProgress:
            return "SyncWriteInProgress";
        case Status::kSyncWriteAmbiguous:
            return "SyncWriteAmbiguous";
        case Status::kSubdocPathEnoent:
            return "SubdocPathEnoent";
        case Status::kSubdocPathMismatch:
            return "SubdocPathMismatch";
        case Status::kSubdocPathEinval:
            return "SubdocPathEinval";
        case Status::kSubdocInvalidCombo:
            return "SubdocInvalidCombo";
        case Status::kSubdocMultiPathFailure:
            return "SubdocMultiPathFailure";
        case Status::kSubdocXattrUnknownVattr:
            return "SubdocXattrUnknownVattr";
    }
    return "unknown";
}

// Datatype is a set of bits, so it is not a scoped enum.
struct Datatype {
    static constexpr std::uint8_t kRaw = 0x00;
    static constexpr std::uint8_t kJson = 0x01;
    static constexpr std::uint8_t kSnappy = 0x02;
    static constexpr std::uint8_t kXattr = 0x04;
};

// HELLO features (u16 list in request and answer) that the server or the load tools know.
enum class Feature : std::uint16_t {
    kTcpNoDelay = 0x03,
    kMutationSeqno = 0x04,
    kXError = 0x07,
    kSelectBucket = 0x08,
    kJson = 0x0b,
    kAltRequest = 0x10,
    kSyncReplication = 0x11,
    kPreserveTtl = 0x14,
    kGetClusterConfigWithKnownVersion = 0x1d,
    kDedupeNotMyVbucket = 0x1e,
};

constexpr std::uint16_t raw(Feature feature) noexcept {
    return static_cast<std::uint16_t>(feature);
}

}  // namespace kv::protocol
