#pragma once

// LineReader: takes answers of protocols that consist of lines off the front of a connection's
// bytes: a line, and if the line announces it, a value of a known size and a trailer. The Grammar
// interprets the lines:
//
//   struct Grammar {
//     static constexpr std::string_view kName;     // for messages
//     static constexpr std::string_view kTrailer;  // what follows a value
//     static ParsedLine parse(std::string_view line);  // without its end; throws LoadError
//   };
//
// Bounded: a line has at most kLongestLine bytes, and a value that does not fit into the receive
// buffer is skipped and never stored.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "load/protocols/reply.h"

namespace kv::load {

/// The meaning of a line. A value of `valueSize` bytes follows if hasValue.
struct ParsedLine {
    enum class Outcome : std::uint8_t { kReply, kBad };
    Outcome outcome = Outcome::kBad;
    bool hasValue = false;
    std::uint64_t valueSize = 0;
    Reply reply{};
};

/// A larger announced value is an error.
inline constexpr std::uint64_t kLargestValue = std::uint64_t{1} << 30U;

/// Parses a decimal number that is the whole text and at most `max`; returns false otherwise.
constexpr bool parseDecimal(std::string_view text, std::uint64_t max,
                            std::uint64_t& number) noexcept {
    constexpr std::size_t kMostDigits = 18;  // cannot overflow
    if (text.empty() || text.size() > kMostDigits) {
        return false;
    }
    std::uint64_t sum = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '9') {
            return false;
        }
        sum = 10 * sum + static_cast<std::uint64_t>(digit - '0');
    }
    number = sum;
    return sum <= max;
}

template <class Grammar>
class LineReader {
  public:
    static constexpr std::size_t kLongestLine = 8192;

    /// Calls onReply(const Reply&) for each complete answer. Returns the number of consumed bytes.
    /// Throws LoadError on bytes that are not an answer, and if the Grammar does.
    template <class OnReply>
    std::size_t take(protocol::Bytes bytes, std::size_t capacity, OnReply& onReply) {
        const std::uint8_t* at = bytes.data();
        const std::uint8_t* const end = at + bytes.size();
        while (at != end) {
            if (skip_ != 0) {
                const auto here = std::min<std::uint64_t>(skip_, size(at, end));
                at += here;
                skip_ -= here;
                continue;
            }
            if (holds_) {
                if (size(at, end) < Grammar::kTrailer.size()) {
                    break;
                }
                checkTrailer(at, end);
                at += Grammar::kTrailer.size();
                holds_ = false;
                onReply(held_);
                continue;
            }
            const auto* newline = static_cast<const std::uint8_t*>(
                    std::memchr(at, '\n', std::min(size(at, end), kLongestLine)));
            if (newline == nullptr) {
                if (size(at, end) >= kLongestLine) {
                    bad(at, end);
                }
                break;  // the rest comes with the next read
            }
            if (newline == at || newline[-1] != '\r') {
                bad(at, end);
            }
            const std::string_view line(reinterpret_cast<const char*>(at), size(at, newline) - 1);
            ParsedLine parsed = Grammar::parse(line);
            if (parsed.outcome == ParsedLine::Outcome::kBad) {
                bad(at, end);
            }
            if (!parsed.hasValue) {
                if (parsed.reply.to == Reply::To::kAny) {
                    parsed.reply.value = protocol::asBytes(line);
                    parsed.reply.whole = true;
                }
                at = newline + 1;
                onReply(parsed.reply);
                continue;
            }
            const auto rest = parsed.valueSize + Grammar::kTrailer.size();
            if (rest > size(newline + 1, end)) {
                if (size(at, newline + 1) + rest <= capacity) {
                    break;
                }
                at = newline + 1;
                held_ = parsed.reply;
                holds_ = true;
                skip_ = parsed.valueSize;
                continue;
            }
            at = newline + 1 + parsed.valueSize;
            checkTrailer(at, end);
            parsed.reply.value = {newline + 1, static_cast<std::size_t>(parsed.valueSize)};
            parsed.reply.whole = true;
            at += Grammar::kTrailer.size();
            onReply(parsed.reply);
        }
        return size(bytes.data(), at);
    }

  private:
    static std::size_t size(const std::uint8_t* from, const std::uint8_t* to) noexcept {
        return static_cast<std::size_t>(to - from);
    }
    static void checkTrailer(const std::uint8_t* at, const std::uint8_t* end) {
        if (std::memcmp(at, Grammar::kTrailer.data(), Grammar::kTrailer.size()) != 0) {
            bad(at, end);
        }
    }
    [[noreturn]] static void bad(const std::uint8_t* at, const std::uint8_t* end) {
        refuseBytes(protocol::asText({at, end}), Grammar::kName);
    }

    std::uint64_t skip_ = 0;  // bytes of the value of held_ still to come
    bool holds_ = false;      // held_ waits for its value and trailer
    Reply held_;
};

}  // namespace kv::load
