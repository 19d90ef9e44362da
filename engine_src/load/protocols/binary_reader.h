#pragma once

// Takes answers of the memcached binary protocol off the front of a connection's bytes. A body that
// is larger than the receive buffer is skipped and never stored.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "load/protocols/reply.h"
#include "protocol/frame.h"

namespace kv::load {

class BinaryReader {
  public:
    /// Calls onAnswer(const protocol::Header&) for each complete answer, or onAnswer(const
    /// protocol::Header&, protocol::Bytes body) if it also takes the body (empty if the answer is
    /// larger than `capacity`). Returns the number of consumed bytes. Throws LoadError on bytes
    /// that are not an answer.
    template <class OnAnswer>
    std::size_t take(protocol::Bytes bytes, std::size_t capacity, OnAnswer& onAnswer) {
        const std::uint8_t* at = bytes.data();
        const std::uint8_t* const end = at + bytes.size();
        if (skip_ != 0) {
            const auto here = std::min(skip_, bytes.size());
            at += here;
            skip_ -= here;
            if (skip_ == 0) {
                pass(onAnswer, held_, {});
            }
        }
        while (static_cast<std::size_t>(end - at) >= protocol::kHeaderSize) {
            const auto header = protocol::decodeHeader(at);
            if (header.magic != protocol::Magic::kClientResponse &&
                header.magic != protocol::Magic::kAltClientResponse &&
                header.magic != protocol::Magic::kServerRequest) {
                refuseBytes(protocol::asText({at, end}), "memcached binary");
            }
            const auto have = static_cast<std::size_t>(end - at);
            const auto size = header.frameSize();
            if (size > have) {
                if (size <= capacity) {
                    break;  // the rest comes with the next read
                }
                held_ = header;
                skip_ = size - have;
                at = end;
                break;
            }
            at += size;
            pass(onAnswer, header, {at - header.bodyLength, header.bodyLength});
        }
        return static_cast<std::size_t>(at - bytes.data());
    }

  private:
    template <class OnAnswer>
    static void pass(OnAnswer& onAnswer, const protocol::Header& header, protocol::Bytes body) {
        if (header.magic == protocol::Magic::kServerRequest) {
            return;  // a new cluster map, which no request asked for
        }
        if constexpr (std::is_invocable_v<OnAnswer&, const protocol::Header&, protocol::Bytes>) {
            onAnswer(header, body);
        } else {
            onAnswer(header);
        }
    }

    std::size_t skip_ = 0;  // bytes of the body of held_ still to come
    protocol::Header held_;
};

}  // namespace kv::load
