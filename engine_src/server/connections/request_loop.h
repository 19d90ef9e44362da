// The request loop: executes all complete requests at the front of a byte stream in order and
// appends their answers.
//
// It does no I/O: the connection passes bytes in and sends the content of context.out. Tests and
// the fuzzer can pass in anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/frame.h"
#include "server/commands/command.h"
#include "server/connections/large_request.h"

namespace kv::server {

/// The limits of one call.
struct TurnBudget {
    uint32_t requests{0};
    size_t outputBytes{0};  ///< stop when context.out holds this many bytes
    /// Stop when CommandContext::work is as much: a small request may copy a large value, or take
    /// long.
    size_t work{1 << 20};
};

enum class Stop : uint8_t {
    NeedInput,     ///< all complete requests are done; `wanted` bytes complete the next one
    TurnOver,      ///< the limit of requests, or of work, is reached
    OutputFull,    ///< the limit of output is reached
    Waiting,       ///< the next request waits: send the answers, run it again later
    Penalty,       ///< hold the answers back, then continue
    CloseFlushed,  ///< send the answers, then close the connection
    Close,         ///< close the connection now
};

struct Progress {
    size_t consumed{0};  ///< bytes at the front of the input that have been processed
    /// Only with NeedInput: size of the next frame as far as known (at least a header).
    size_t wanted{0};
    /// Only with NeedInput: bytes still to come of a request that was refused as too long.
    size_t skip{0};
    Stop stop{Stop::NeedInput};
};

Progress runRequests(CommandContext& context, protocol::Bytes input, TurnBudget budget);
/// Runs one complete large request; consumes no bytes of the stream.
Progress runLarge(CommandContext& context, LargeRequest request);

}  // namespace kv::server
