// Any bytes as answers to the load generators, in any pieces, for each protocol: the result of a
// reader does not depend on the pieces, values lie inside the received bytes, and a reader never
// waits for more than its buffer can hold.
//
//   byte 0: the protocol | 1: the size of a piece | 2: the size of the buffer | the answers
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/require.h"
#include "load/core/load_error.h"
#include "load/protocols/binary_codec.h"
#include "load/protocols/meta_codec.h"
#include "load/protocols/resp_codec.h"
#include "load/protocols/text_codec.h"

namespace {

using namespace kv::load;
using kv::protocol::Bytes;

struct Seen {
    Reply::To to;
    kv::protocol::Status status;
    std::uint32_t opaque;
    std::string value;
    bool operator==(const Seen&) const = default;
};

struct Run {
    std::vector<Seen> replies;
    bool refused = false;
};

/// Passes the answers in pieces, as a channel with a buffer of `capacity` bytes does.
template <class Reader>
Run read(Bytes input, std::size_t piece, std::size_t capacity) {
    Run run;
    Reader reader;
    std::vector<std::uint8_t> buffer;
    auto onReply = [&](const Reply& reply) {
        require(reply.value.empty() ||
                (reply.value.data() >= buffer.data() &&
                 reply.value.data() + reply.value.size() <= buffer.data() + buffer.size()));
        require(reply.whole || reply.value.empty());
        const auto* const from = reply.value.data();
        run.replies.push_back({reply.to, reply.status, reply.tagged ? reply.opaque : 0,
                               std::string(from, from + reply.value.size())});
    };
    try {
        while (!input.empty()) {
            const auto size = std::min({piece, input.size(), capacity - buffer.size()});
            require(size != 0);
            buffer.insert(buffer.end(), input.begin(),
                          input.begin() + static_cast<std::ptrdiff_t>(size));
            input = input.subspan(size);
            const auto used = reader.take(buffer, capacity, onReply);
            require(used <= buffer.size());
            buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(used));
        }
    } catch (const LoadError&) {
        run.refused = true;
    }
    return run;
}

template <class Reader>
void check(Bytes input, std::size_t piece, std::size_t least) {
    // Lines have their own limit, which must fit into the buffer as the channel's does.
    const auto capacity = 2 * LineReader<RespGrammar>::kLongestLine + 64 * least;
    const auto whole = read<Reader>(input, capacity, capacity);
    const auto pieces = read<Reader>(input, piece, capacity);
    require(whole.refused == pieces.refused);
    require(whole.replies == pieces.replies);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    constexpr std::size_t kHead = 3;
    if (size < kHead) {
        return 0;
    }
    const Bytes input{data + kHead, size - kHead};
    const std::size_t piece = std::size_t{data[1]} + 1;
    switch (data[0] % 4) {
        case 0:
            check<BinaryCodec::Reader>(input, piece, data[2]);
            break;
        case 1:
            check<TextCodec::Reader>(input, piece, data[2]);
            break;
        case 2:
            check<MetaCodec::Reader>(input, piece, data[2]);
            break;
        default:
            check<RespCodec::Reader>(input, piece, data[2]);
    }
    return 0;
}
