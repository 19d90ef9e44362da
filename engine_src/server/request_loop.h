// The request loop: all complete requests at the front of a byte stream, executed in order, answers
// appended.
//
// No I/O: the connection feeds it bytes and sends what it leaves in context.out; tests and the
// fuzzer feed it anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/frame.h"
#include "server/command.h"
#include "server/large_request.h"

namespace kv::server {

/// How much one call may do.
struct TurnBudget {
    uint32_t requests{0};
    size_t outputBytes{0};  ///< stop when context.out holds as much
};

enum class Stop : uint8_t {
    NeedInput,     ///< all complete requests are done; `wanted` bytes make the next one complete
    TurnOver,      ///< the budget of requests is used up
    OutputFull,    ///< the budget of output is used up
    Waiting,       ///< the next request waits: send the answers, run it again in a while
    Penalty,       ///< hold the answers back, then go on
    CloseFlushed,  ///< send the answers, then close
    Close,         ///< close now
};

struct Progress {
    size_t consumed{0};  ///< bytes at the front of the input that are done with
    size_t wanted{0};  ///< only with NeedInput: size of the next frame as far as known (at least a
                       ///< header)
    size_t skip{0};  ///< only with NeedInput: bytes still to come that belong to a request that was
                     ///< refused as too long
    Stop stop{Stop::NeedInput};
};

Progress runRequests(CommandContext& context, protocol::Bytes input, TurnBudget budget);
/// One request of which nothing is missing any more; no bytes of the stream are consumed.
Progress runLarge(CommandContext& context, LargeRequest request);

}  // namespace kv::server
