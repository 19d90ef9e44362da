#pragma once

// Framing of the memcached binary protocol: the 24-byte header and the parts of the body. No I/O,
// no allocation except in appendFrame. Views point into the caller's buffer and are valid as long
// as its bytes. All functions are pure; any thread may call them.
//
//   byte 0 magic | 1 opcode | 2-3 key length (alt magics: 2 framing length, 3 key length)
//        4 extras length | 5 datatype | 6-7 vBucket or status | 8-11 body length
//        12-15 opaque | 16-23 CAS | body = [framing extras] extras key value

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/opcodes.h"
#include "protocol/status.h"
#include "types/endian.h"

namespace kv::protocol {

using Bytes = std::span<const std::uint8_t>;

inline constexpr std::size_t kHeaderSize = 24;

// Text <-> bytes without copying.
inline Bytes asBytes(std::string_view text) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view asText(Bytes bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The memory that a peer may make us hold. A body above maxBody is reported from the header alone,
// before any of it needs to be buffered.
struct Limits {
    // 20 MiB value + 1 MiB xattr + room for key, extras and framing.
    std::uint32_t maxBody = (21U << 20U) + 1024U;
    // Larger bodies up to this are reported as kTooLong, and even larger ones as kBad; 0: all as
    // kBad.
    std::uint32_t maxSkipped = 0;
};

// A decoded header: plain numbers in host order.
struct Header {
    Magic magic = Magic::kClientRequest;
    Opcode opcode = Opcode::kNoop;
    std::uint8_t framingLength = 0;  // only alt magics have it
    std::uint16_t keyLength = 0;     // at most 255 with alt magics
    std::uint8_t extrasLength = 0;
    std::uint8_t datatype = Datatype::kRaw;
    std::uint16_t vbucketOrStatus = 0;
    std::uint32_t bodyLength = 0;  // framing + extras + key + value
    std::uint32_t opaque = 0;
    std::uint64_t cas = 0;

    constexpr std::uint16_t vbucket() const noexcept { return vbucketOrStatus; }
    constexpr Status status() const noexcept { return static_cast<Status>(vbucketOrStatus); }
    constexpr std::size_t frameSize() const noexcept { return kHeaderSize + bodyLength; }
    // True if the three lengths fit into the body, so that the value's length is not negative.
    constexpr bool lengthsAgree() const noexcept {
        return std::uint32_t{framingLength} + extrasLength + keyLength <= bodyLength;
    }
};

// `from` has at least kHeaderSize bytes. Does not check the magic: use isKnownMagic on from[0].
constexpr Header decodeHeader(const std::uint8_t* from) noexcept {
    Header header;
    header.magic = static_cast<Magic>(from[0]);
    header.opcode = static_cast<Opcode>(from[1]);
    if (isAlt(header.magic)) {
        header.framingLength = from[2];
        header.keyLength = from[3];
    } else {
        header.keyLength = loadBig<std::uint16_t>(from + 2);
    }
    header.extrasLength = from[4];
    header.datatype = from[5];
    header.vbucketOrStatus = loadBig<std::uint16_t>(from + 6);
    header.bodyLength = loadBig<std::uint32_t>(from + 8);
    header.opaque = loadBig<std::uint32_t>(from + 12);
    header.cas = loadBig<std::uint64_t>(from + 16);
    return header;
}

// `to` has room for kHeaderSize bytes. With an alt magic keyLength must be <= 255.
constexpr void encodeHeader(std::uint8_t* to, const Header& header) noexcept {
    to[0] = raw(header.magic);
    to[1] = raw(header.opcode);
    if (isAlt(header.magic)) {
        to[2] = header.framingLength;
        to[3] = static_cast<std::uint8_t>(header.keyLength);
    } else {
        storeBig(to + 2, header.keyLength);
    }
    to[4] = header.extrasLength;
    to[5] = header.datatype;
    storeBig(to + 6, header.vbucketOrStatus);
    storeBig(to + 8, header.bodyLength);
    storeBig(to + 12, header.opaque);
    storeBig(to + 16, header.cas);
}

// One complete frame inside the caller's buffer.
struct FrameView {
    Header header;
    Bytes framing;
    Bytes extras;
    Bytes key;
    Bytes value;

    constexpr std::size_t size() const noexcept { return header.frameSize(); }
    std::string_view keyText() const noexcept { return asText(key); }
    std::string_view valueText() const noexcept { return asText(value); }
};

enum class ParseOutcome : std::uint8_t {
    kFrame,  // `frame` is valid; consume frame.size() bytes
    // `wanted` is the number of bytes that the buffer must hold before another attempt is
    // worthwhile.
    kNeedMore,
    // Frame.header, framing, extras and key are valid, the value is not read: the caller may answer
    // and drop frame.size() bytes, however many of them have arrived.
    kTooLong,
    kBad,  // `error` holds the reason; nothing after this byte can be trusted
};

enum class ParseError : std::uint8_t {
    kNone,
    kBadMagic,        // not this protocol at all (an HTTP or text client)
    kBodyTooLarge,    // header is decoded in frame.header: the caller may answer E2big
    kLengthMismatch,  // framing + extras + key > body; header is decoded in frame.header
};

struct ParseResult {
    ParseOutcome outcome = ParseOutcome::kNeedMore;
    ParseError error = ParseError::kNone;
    std::size_t wanted = kHeaderSize;
    FrameView frame{};
};

// Parses the front of `buffer`. A bad first byte is found before the header is complete.
constexpr ParseResult parseFrame(Bytes buffer, const Limits& limits = {}) noexcept {
    ParseResult result;
    if (buffer.empty()) {
        return result;
    }
    if (!isKnownMagic(buffer[0])) {
        result.outcome = ParseOutcome::kBad;
        result.error = ParseError::kBadMagic;
        return result;
    }
    if (buffer.size() < kHeaderSize) {
        return result;
    }
    result.frame.header = decodeHeader(buffer.data());
    const Header& header = result.frame.header;
    if (!header.lengthsAgree()) {
        result.outcome = ParseOutcome::kBad;
        result.error = ParseError::kLengthMismatch;
        return result;
    }
    const bool tooLong = header.bodyLength > limits.maxBody;
    const std::uint32_t parts =
            std::uint32_t{header.framingLength} + header.extrasLength + header.keyLength;
    if (tooLong && (header.bodyLength > limits.maxSkipped || parts > limits.maxBody)) {
        result.outcome = ParseOutcome::kBad;
        result.error = ParseError::kBodyTooLarge;
        return result;
    }
    result.wanted = tooLong ? kHeaderSize + parts : header.frameSize();
    if (buffer.size() < result.wanted) {
        return result;
    }
    Bytes body = buffer.subspan(kHeaderSize, result.wanted - kHeaderSize);
    result.frame.framing = body.first(header.framingLength);
    body = body.subspan(header.framingLength);
    result.frame.extras = body.first(header.extrasLength);
    body = body.subspan(header.extrasLength);
    result.frame.key = body.first(header.keyLength);
    result.frame.value = body.subspan(header.keyLength);
    result.outcome = tooLong ? ParseOutcome::kTooLong : ParseOutcome::kFrame;
    return result;
}

// A frame to be written. Lengths follow from the spans.
struct FrameSpec {
    Magic magic = Magic::kClientRequest;
    Opcode opcode = Opcode::kNoop;
    std::uint16_t vbucketOrStatus = 0;
    std::uint32_t opaque = 0;
    std::uint64_t cas = 0;
    std::uint8_t datatype = Datatype::kRaw;
    Bytes framing{};  // non-empty only with an alt magic
    Bytes extras{};
    Bytes key{};
    Bytes value{};

    constexpr std::size_t bodySize() const noexcept {
        return framing.size() + extras.size() + key.size() + value.size();
    }
    constexpr std::size_t size() const noexcept { return kHeaderSize + bodySize(); }
    // True if the parts fit the widths of the header's length fields and the magic.
    constexpr bool encodable() const noexcept {
        const std::size_t maxKey = isAlt(magic) ? 0xffU : 0xffffU;
        return framing.size() <= 0xff && (framing.empty() || isAlt(magic)) &&
               extras.size() <= 0xff && key.size() <= maxKey && bodySize() <= 0xffffffffU;
    }
    // The header that precedes the parts; precondition: encodable().
    constexpr Header header() const noexcept {
        Header header;
        header.magic = magic;
        header.opcode = opcode;
        header.framingLength = static_cast<std::uint8_t>(framing.size());
        header.keyLength = static_cast<std::uint16_t>(key.size());
        header.extrasLength = static_cast<std::uint8_t>(extras.size());
        header.datatype = datatype;
        header.vbucketOrStatus = vbucketOrStatus;
        header.bodyLength = static_cast<std::uint32_t>(bodySize());
        header.opaque = opaque;
        header.cas = cas;
        return header;
    }
};

// Writes all but the value to `to` and returns the size of that.
// Throws std::length_error if !spec.encodable().
std::size_t writeHead(std::uint8_t* to, const FrameSpec& spec);

// Writes the frame to `to` (room for spec.size() bytes) and returns its size.
// Throws std::length_error if !spec.encodable().
std::size_t writeFrame(std::uint8_t* to, const FrameSpec& spec);

// Appends the frame to `out`. Throws std::length_error if !spec.encodable().
void appendFrame(std::vector<std::uint8_t>& out, const FrameSpec& spec);

}  // namespace kv::protocol
