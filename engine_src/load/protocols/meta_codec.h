#pragma once

// MetaCodec: memcached's meta protocol in quiet mode: mg, ms and md, whose misses and successes are
// not answered, and mn, which the server answers when it reaches the end of a batch. Requests carry
// a tag, which answers repeat: the requests before the answered one had the outcome that is not
// sent. Threads: immutable after construction, so one codec may serve all connections of a thread.

#include "load/protocols/line_reader.h"
#include "load/protocols/request_template.h"

namespace kv::load {

struct MetaGrammar {
    static constexpr std::string_view kName = "memcached meta";
    static constexpr std::string_view kTrailer = "\r\n";
    static ParsedLine parse(std::string_view line);
};

class MetaCodec {
  public:
    using Reader = LineReader<MetaGrammar>;
    static constexpr bool kRouted = false;
    static constexpr bool kQuiet = true;
    static constexpr std::size_t kTagSize = 6;

    /// Refers to `keys`, which outlives it.
    MetaCodec(const KeyCodec& keys, DocumentShape shape);

    std::size_t maxSize(std::uint32_t valueSize) const noexcept {
        return std::max(get_.size(), set_.size() + kMostDigits + afterLength_.size() + valueSize) +
               kTagSize + 4;
    }
    std::size_t get(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const {
        return endLine(to, get_.write(to, number), opaque);
    }
    std::size_t remove(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const {
        return endLine(to, remove_.write(to, number), opaque);
    }
    /// Writes the part before the value; tail() writes the part after it.
    std::size_t set(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque,
                    std::uint32_t valueSize) const {
        auto size = set_.write(to, number);
        size += writeDecimal(to + size, valueSize);
        size += writeText(to + size, afterLength_);
        return endLine(to, size, opaque);
    }
    std::size_t tail(std::uint8_t* to) const noexcept { return writeText(to, "\r\n"); }
    /// Ends a batch.
    std::size_t fence(std::uint8_t* to) const noexcept { return writeText(to, "mn\r\n"); }
    static constexpr std::size_t kFenceSize = 4;

    /// Writes an opaque as kTagSize printable characters, and reads it back; false if they are
    /// none.
    static void writeTag(std::uint8_t* to, std::uint32_t opaque) noexcept {
        for (std::size_t i = 0; i < kTagSize; ++i) {
            to[i] = static_cast<std::uint8_t>(kFirstDigit + (opaque & 63U));
            opaque >>= 6U;
        }
    }
    static bool readTag(std::string_view text, std::uint32_t& opaque) noexcept;

  private:
    static constexpr std::uint8_t kFirstDigit = '0';  // of 64 consecutive printable characters
    static constexpr std::size_t kMostDigits = 10;

    static std::size_t endLine(std::uint8_t* to, std::size_t size, std::uint32_t opaque) noexcept {
        writeTag(to + size, opaque);
        return size + kTagSize + writeText(to + size + kTagSize, "\r\n");
    }

    RequestTemplate get_;
    RequestTemplate set_;
    RequestTemplate remove_;
    std::string afterLength_;
};

}  // namespace kv::load
