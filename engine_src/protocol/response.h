// Encodes answers into memory that the caller provides: no allocation, no I/O, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "protocol/frame.h"

namespace kv::protocol {

/// An answer. The magic is always 0x81: flexible framing in an answer is only for negotiated
/// features, and there are none.
struct Response {
    Opcode opcode{Opcode::kNoop};
    Status status{Status::kSuccess};
    uint32_t opaque{0};
    uint64_t cas{0};
    uint8_t datatype{Datatype::kRaw};
    Bytes extras{};  ///< at most 255 bytes
    Bytes key{};     ///< at most 65535 bytes
    Bytes value{};

    [[nodiscard]] constexpr size_t size() const noexcept {
        return kHeaderSize + extras.size() + key.size() + value.size();
    }
};

/// Writes everything but the value of `response` to `to`, which has room for it, and returns the
/// size.
inline size_t writeHead(uint8_t* to, const Response& response) noexcept {
    Header header;
    header.magic = Magic::kClientResponse;
    header.opcode = response.opcode;
    header.keyLength = static_cast<uint16_t>(response.key.size());
    header.extrasLength = static_cast<uint8_t>(response.extras.size());
    header.datatype = response.datatype;
    header.vbucketOrStatus = raw(response.status);
    header.bodyLength = static_cast<uint32_t>(response.size() - kHeaderSize);
    header.opaque = response.opaque;
    header.cas = response.cas;
    encodeHeader(to, header);
    uint8_t* at = to + kHeaderSize;
    for (const Bytes part : {response.extras, response.key}) {
        if (!part.empty()) {
            std::memcpy(at, part.data(), part.size());
            at += part.size();
        }
    }
    return static_cast<size_t>(at - to);
}

/// Writes `response` to `to` (room for response.size() bytes) and returns its size.
inline size_t writeResponse(uint8_t* to, const Response& response) noexcept {
    const size_t head = writeHead(to, response);
    if (!response.value.empty()) {
        std::memcpy(to + head, response.value.data(), response.value.size());
    }
    return head + response.value.size();
}

}  // namespace kv::protocol
