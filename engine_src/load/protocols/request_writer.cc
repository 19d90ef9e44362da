#include "load/protocols/request_writer.h"

#include <array>

namespace kv::load {

using protocol::FrameSpec;
using protocol::Opcode;

RequestWriter::RequestWriter(const KeyCodec& keys, Shape shape)
    : keys_(keys),
      shape_(shape),
      powerOfTwo_(shape.vbuckets == 0 || std::has_single_bit(shape.vbuckets)),
      mask_(shape.vbuckets == 0 ? 0 : shape.vbuckets - 1) {
    FrameSpec spec;
    spec.opcode = Opcode::kGet;
    spec.key = protocol::asBytes(keys.zeroKey());
    protocol::appendFrame(get_, spec);
    spec.opcode = Opcode::kDelete;
    protocol::appendFrame(remove_, spec);

    std::array<std::uint8_t, kSetExtras> extras{};
    storeBig(extras.data(), shape.flags);
    storeBig(extras.data() + 4, shape.expiry);
    spec.opcode = Opcode::kSet;
    spec.datatype = shape.datatype;
    spec.extras = extras;
    protocol::appendFrame(set_, spec);
}

std::uint16_t RequestWriter::vbucketOf(std::uint64_t number) const {
    std::array<std::uint8_t, 256> key{};  // the protocol allows 250
    return vbucket(keys_.write(key.data(), number));
}

}  // namespace kv::load
