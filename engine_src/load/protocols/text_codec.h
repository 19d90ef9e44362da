#pragma once

// TextCodec: memcached's text protocol: get, set and delete. Answers come in the order of the
// requests and do not name them. Threads: immutable after construction, so one codec may serve all
// connections of a thread.

#include "load/protocols/line_reader.h"
#include "load/protocols/request_template.h"

namespace kv::load {

struct TextGrammar {
    static constexpr std::string_view kName = "memcached text";
    static constexpr std::string_view kTrailer = "\r\nEND\r\n";
    static ParsedLine parse(std::string_view line);
};

/// Parses an error line of both memcached protocols of lines. Throws LoadError (refuseLine) on
/// those that do not refuse a single document; kBad if it is not an error.
ParsedLine parseMemcachedError(std::string_view line);

class TextCodec {
  public:
    using Reader = LineReader<TextGrammar>;
    static constexpr bool kRouted = false;
    static constexpr bool kQuiet = false;

    /// Refers to `keys`, which outlives it.
    TextCodec(const KeyCodec& keys, DocumentShape shape);

    /// Returns the maximum size of any request with a value of that size.
    std::size_t maxSize(std::uint32_t valueSize) const noexcept {
        return set_.size() + kLengthLine + valueSize + 2;
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
        return size + tail(to + size);
    }
    std::size_t tail(std::uint8_t* to) const noexcept { return writeText(to, "\r\n"); }

  private:
    static constexpr std::size_t kLengthLine = 12;  // digits, end of line

    RequestTemplate get_;
    RequestTemplate set_;
    RequestTemplate remove_;
};

}  // namespace kv::load
