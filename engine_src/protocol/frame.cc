#include "protocol/frame.h"

#include <cstring>
#include <stdexcept>

namespace kv::protocol {

namespace {

std::uint8_t* put(std::uint8_t* to, Bytes part) noexcept {
    if (!part.empty()) {  // memcpy from a null span is undefined even for 0 bytes
        std::memcpy(to, part.data(), part.size());
    }
    return to + part.size();
}

}  // namespace

std::size_t writeHead(std::uint8_t* to, const FrameSpec& spec) {
    if (!spec.encodable()) {
        throw std::length_error("frame parts do not fit the header's length fields");
    }
    encodeHeader(to, spec.header());
    to = put(to + kHeaderSize, spec.framing);
    to = put(to, spec.extras);
    put(to, spec.key);
    return spec.size() - spec.value.size();
}

std::size_t writeFrame(std::uint8_t* to, const FrameSpec& spec) {
    put(to + writeHead(to, spec), spec.value);
    return spec.size();
}

void appendFrame(std::vector<std::uint8_t>& out, const FrameSpec& spec) {
    if (!spec.encodable()) {
        throw std::length_error("frame parts do not fit the header's length fields");
    }
    const std::size_t at = out.size();
    out.resize(at + spec.size());
    writeFrame(out.data() + at, spec);
}

}  // namespace kv::protocol
