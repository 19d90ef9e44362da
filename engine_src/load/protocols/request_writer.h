#pragma once

// RequestWriter: GET, SET and DELETE requests from templates: everything that does not change is
// copied in one piece, then vBucket, opaque and the key's digits are patched in. It does not
// allocate. Threads: immutable after construction.
//
// SET bodies are copied into the send buffer rather than gathered by writev: at 256 B the copy
// costs about 10 ns, and an iovec pair in the kernel more than that (see load/README.md for the
// figures).

#include <cstdint>
#include <cstring>
#include <vector>

#include "load/core/value_source.h"
#include "load/protocols/key_codec.h"
#include "protocol/frame.h"
#include "types/endian.h"

namespace kv::load {

class RequestWriter {
  public:
    struct Shape {
        std::uint32_t vbuckets = 1024;  // 0: plain memcached, the vBucket field stays 0
        std::uint32_t expiry = 0;
        std::uint32_t flags = 0;
        std::uint8_t datatype = protocol::Datatype::kRaw;
    };

    /// Refers to `keys`, which outlives it.
    RequestWriter(const KeyCodec& keys, Shape shape);

    std::size_t maxSize(std::uint32_t valueSize) const noexcept { return set_.size() + valueSize; }

    /// Writes a GET for key `number` to `to` (room for maxSize(0)) and returns its size.
    std::size_t get(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const noexcept {
        std::memcpy(to, get_.data(), get_.size());
        patch(to, protocol::kHeaderSize, number, opaque);
        return get_.size();
    }

    /// Writes a DELETE, as get() writes a GET.
    std::size_t remove(std::uint8_t* to, std::uint64_t number,
                       std::uint32_t opaque) const noexcept {
        std::memcpy(to, remove_.data(), remove_.size());
        patch(to, protocol::kHeaderSize, number, opaque);
        return remove_.size();
    }

    /// Writes everything but the value of a SET; the caller puts the value at to + the returned
    /// size.
    std::size_t set(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque,
                    std::uint32_t valueSize) const noexcept {
        std::memcpy(to, set_.data(), set_.size());
        patch(to, protocol::kHeaderSize + kSetExtras, number, opaque);
        storeBig(to + 8, static_cast<std::uint32_t>(kSetExtras + keys_.size()) + valueSize);
        return set_.size();
    }

    /// Returns the vBucket of the key of `number`.
    std::uint16_t vbucketOf(std::uint64_t number) const;

    std::uint16_t vbucket(std::uint32_t crc) const noexcept {
        const auto hash = (crc >> 16U) & 0x7fffU;
        return static_cast<std::uint16_t>(powerOfTwo_ ? hash & mask_ : hash % shape_.vbuckets);
    }

  private:
    static constexpr std::size_t kSetExtras = 8;  // flags, expiry

    void patch(std::uint8_t* to, std::size_t keyAt, std::uint64_t number,
               std::uint32_t opaque) const noexcept {
        storeBig(to + 6, vbucket(keys_.write(to + keyAt, number)));
        storeBig(to + 12, opaque);
    }

    const KeyCodec& keys_;
    Shape shape_;
    bool powerOfTwo_;
    std::uint32_t mask_;
    std::vector<std::uint8_t> get_;
    std::vector<std::uint8_t> set_;
    std::vector<std::uint8_t> remove_;
};

}  // namespace kv::load
