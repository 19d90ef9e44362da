#pragma once

// RespCodec: the protocol of Redis, versions 2 and 3: GET, SET and DEL, pipelined. Requests are the
// same in both, and answers as well except a miss. Threads: immutable after construction, so one
// codec may serve all connections of a thread.

#include "load/protocols/line_reader.h"
#include "load/protocols/request_template.h"

namespace kv::load {

struct RespGrammar {
    static constexpr std::string_view kName = "Redis";
    static constexpr std::string_view kTrailer = "\r\n";
    static ParsedLine parse(std::string_view line);
};

class RespCodec {
  public:
    using Reader = LineReader<RespGrammar>;
    static constexpr bool kRouted = false;
    static constexpr bool kQuiet = false;

    /// Refers to `keys`, which outlives it.
    RespCodec(const KeyCodec& keys, DocumentShape shape);

    std::size_t maxSize(std::uint32_t valueSize) const noexcept {
        return set_.size() + kLengthLine + valueSize + tail_.size();
    }
    std::size_t get(std::uint8_t* to, std::uint64_t number, std::uint32_t /*opaque*/) const {
        return get_.write(to, number);
    }
    std::size_t remove(std::uint8_t* to, std::uint64_t number, std::uint32_t /*opaque*/) const {
        return remove_.write(to, number);
    }
    /// Writes the part before the value; tail() writes the part after it.
    std::size_t set(std::uint8_t* to, std::uint64_t number, std::uint32_t /*opaque*/,
                    std::uint32_t valueSize) const {
        auto size = set_.write(to, number);
        size += writeDecimal(to + size, valueSize);
        return size + writeText(to + size, "\r\n");
    }
    std::size_t tail(std::uint8_t* to) const noexcept { return writeText(to, tail_); }

  private:
    static constexpr std::size_t kLengthLine = 12;  // digits, end of line

    RequestTemplate get_;
    RequestTemplate set_;
    RequestTemplate remove_;
    std::string tail_;
};

}  // namespace kv::load
