#pragma once

// An answer of a server as the traffic sees it, independent of the protocol.

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/frame.h"

namespace kv::load {

struct Reply {
    /// The requests that it may answer.
    enum class To : std::uint8_t {
        kGet,
        kSet,
        kDelete,
        kAny,    // an error
        kFence,  // the end of a batch of quiet requests
    };
    To to = To::kAny;
    protocol::Status status = protocol::Status::kSuccess;
    // `opaque` is that of the request; otherwise the answer is to the oldest request.
    bool tagged = false;
    bool whole = false;  // `value` is complete: a value larger than the receive buffer is not kept
    std::uint32_t opaque = 0;
    // Of a GET that found its key, or the text of an error; points into the connection's buffer.
    protocol::Bytes value{};
};

/// Returns a server's line for a message: cut, with everything that is not printable ASCII
/// replaced.
std::string printable(std::string_view line);

/// Throws LoadError: the server refused something in a way that makes the run pointless. Quotes the
/// line and, for refusals with a common cause, adds what to do.
[[noreturn]] void refuseLine(std::string_view line);

/// Throws LoadError: the server sent bytes that are not an answer of a protocol. Quotes the first
/// of them, at most a line.
[[noreturn]] void refuseBytes(std::string_view bytes, std::string_view protocol);

}  // namespace kv::load
