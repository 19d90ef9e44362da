#pragma once

// BinaryCodec: memcached's binary protocol for traffic that knows no protocol: RequestWriter
// writes, Reader takes the answers. Each answer repeats its request's opaque.

#include "load/protocols/binary_reader.h"
#include "load/protocols/reply.h"
#include "load/protocols/request_writer.h"

namespace kv::load {

class BinaryCodec {
  public:
    static constexpr bool kRouted = true;  // a request names the vBucket that it is for
    static constexpr bool kQuiet = false;

    /// Calls onReply(const Reply&) for each answer to a GET, SET or DELETE.
    class Reader {
      public:
        template <class OnReply>
        std::size_t take(protocol::Bytes bytes, std::size_t capacity, OnReply& onReply) {
            auto onAnswer = [&](const protocol::Header& header, protocol::Bytes body) {
                onReply(replyOf(header, body));
            };
            return reader_.take(bytes, capacity, onAnswer);
        }

      private:
        static Reply::To to(protocol::Opcode opcode) {
            switch (opcode) {
                case protocol::Opcode::kGet:
                    return Reply::To::kGet;
                case protocol::Opcode::kSet:
                    return Reply::To::kSet;
                case protocol::Opcode::kDelete:
                    return Reply::To::kDelete;
                default:
                    return Reply::To::kFence;
            }
        }
        static Reply replyOf(const protocol::Header& header, protocol::Bytes body) {
            Reply reply;
            reply.to = to(header.opcode);
            reply.status = header.status();
            reply.tagged = true;
            reply.opaque = header.opaque;
            const auto before =
                    std::size_t{header.framingLength} + header.extrasLength + header.keyLength;
            if (body.size() == header.bodyLength && before <= body.size()) [[likely]] {
                reply.value = body.subspan(before);
                reply.whole = true;
            }
            return reply;
        }

        BinaryReader reader_;
    };

    explicit BinaryCodec(const RequestWriter& writer) : writer_(writer) {}

    std::size_t maxSize(std::uint32_t valueSize) const noexcept {
        return writer_.maxSize(valueSize);
    }
    std::size_t get(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const noexcept {
        return writer_.get(to, number, opaque);
    }
    std::size_t set(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque,
                    std::uint32_t valueSize) const noexcept {
        return writer_.set(to, number, opaque, valueSize);
    }
    std::size_t remove(std::uint8_t* to, std::uint64_t number,
                       std::uint32_t opaque) const noexcept {
        return writer_.remove(to, number, opaque);
    }
    std::size_t tail(std::uint8_t* /*to*/) const noexcept { return 0; }

    /// Reads the vBucket of a request that get(), set() or remove() wrote.
    static std::uint16_t vbucketOf(const std::uint8_t* request) noexcept {
        return loadBig<std::uint16_t>(request + 6);
    }

  private:
    RequestWriter writer_;
};

}  // namespace kv::load
