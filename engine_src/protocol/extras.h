// The extras of requests and answers as plain numbers: decoders take bytes whose length
// request_rules.h has checked, encoders return the bytes for the wire. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocol/frame.h"
#include "types/endian.h"

namespace kv::protocol {

/// Set, Add, Replace: the client's opaque flags, and an expiry as the client sent it (relative or
/// absolute seconds).
struct StoreExtras {
    uint32_t flags{0};
    uint32_t expiry{0};
};

/// Increment, Decrement. Expiry kCounterNoCreate: answer a miss with KeyEnoent instead of storing
/// `initial`.
struct CounterExtras {
    uint64_t delta{0};
    uint64_t initial{0};
    uint32_t expiry{0};
};
inline constexpr uint32_t kCounterNoCreate = 0xffffffff;

/// The version of a cluster config. Two of them compare by epoch, then by revision.
struct ConfigVersion {
    int64_t epoch{0};
    int64_t revision{0};
    friend constexpr auto operator<=>(const ConfigVersion&, const ConfigVersion&) = default;
};

constexpr StoreExtras decodeStoreExtras(Bytes extras) noexcept {
    return {loadBig<uint32_t>(extras.data()), loadBig<uint32_t>(extras.data() + 4)};
}

constexpr CounterExtras decodeCounterExtras(Bytes extras) noexcept {
    return {loadBig<uint64_t>(extras.data()), loadBig<uint64_t>(extras.data() + 8),
            loadBig<uint32_t>(extras.data() + 16)};
}

/// SetWithMeta, AddWithMeta, DeleteWithMeta: a version of a document from another cluster.
struct VersionExtras {
    uint32_t flags{0};
    uint32_t expiry{0};  ///< absolute seconds
    uint64_t revision{0};
    uint64_t cas{0};
    uint32_t options{0};
};
/// Bits of VersionExtras::options.
inline constexpr uint32_t kSkipConflictResolution = 0x01;
inline constexpr uint32_t kForceAcceptWithMeta = 0x02;
inline constexpr uint32_t kRegenerateCas = 0x04;
inline constexpr uint32_t kIsExpiration = 0x10;

constexpr VersionExtras decodeVersionExtras(Bytes extras) noexcept {
    return {loadBig<uint32_t>(extras.data()), loadBig<uint32_t>(extras.data() + 4),
            loadBig<uint64_t>(extras.data() + 8), loadBig<uint64_t>(extras.data() + 16),
            extras.size() < 28 ? 0 : loadBig<uint32_t>(extras.data() + 24)};
}

/// A single u32 (expiry, lock time, flush delay, verbosity); `absent` if the request has no extras.
constexpr uint32_t decodeU32(Bytes extras, uint32_t absent = 0) noexcept {
    return extras.size() < sizeof(uint32_t) ? absent : loadBig<uint32_t>(extras.data());
}

constexpr ConfigVersion decodeConfigVersion(Bytes extras) noexcept {
    return {static_cast<int64_t>(loadBig<uint64_t>(extras.data())),
            static_cast<int64_t>(loadBig<uint64_t>(extras.data() + 8))};
}

template <size_t Size>
using Encoded = std::array<uint8_t, Size>;

constexpr Encoded<4> encodeU32(uint32_t value) noexcept {
    Encoded<4> out{};
    storeBig(out.data(), value);
    return out;
}

constexpr Encoded<8> encodeU64(uint64_t value) noexcept {
    Encoded<8> out{};
    storeBig(out.data(), value);
    return out;
}

/// Extras of a mutation's answer if MutationSeqno was negotiated: the history and the seqno in it.
constexpr Encoded<16> encodeMutationToken(uint64_t vbUuid, uint64_t seqno) noexcept {
    Encoded<16> out{};
    storeBig(out.data(), vbUuid);
    storeBig(out.data() + 8, seqno);
    return out;
}

/// Extras of the answer to GetMeta.
struct MetaExtras {
    bool deleted{false};
    uint32_t flags{0};
    uint32_t expiry{0};
    uint64_t seqno{0};
    uint8_t datatype{0};
};

/// 20 bytes, or 21 with the datatype for clients that ask for version 2.
constexpr Encoded<21> encodeMeta(const MetaExtras& meta) noexcept {
    Encoded<21> out{};
    storeBig(out.data(), uint32_t{meta.deleted ? 1U : 0U});
    storeBig(out.data() + 4, meta.flags);
    storeBig(out.data() + 8, meta.expiry);
    storeBig(out.data() + 12, meta.seqno);
    out[20] = meta.datatype;
    return out;
}

}  // namespace kv::protocol
