#include "server/connections/request_loop.h"

#include <algorithm>
#include <chrono>

#include "options/selected/injected.h"
#include "server/connections/look_ahead.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Magic;
using protocol::ParseError;
using protocol::ParseOutcome;
using protocol::ParseResult;
using protocol::Status;

namespace {

// Inlined although there are two callers, because every request passes through it.
[[gnu::always_inline]] inline After timedExecute(CommandContext& context,
                                                 const FrameView& request) {
    if (!context.stats.sample()) [[likely]] {
        return execute(context, request);
    }
    const auto start = std::chrono::steady_clock::now();
    const After after = execute(context, request);
    context.stats.record(request.header.opcode, std::chrono::steady_clock::now() - start);
    return after;
}

/// The stream cannot be parsed any further. Answers with the reason if the header is credible.
Stop refuseStream(CommandContext& context, const protocol::ParseResult& parsed) {
    const Magic magic = parsed.frame.header.magic;
    if (parsed.error == ParseError::kBadMagic || !protocol::isRequest(magic)) {
        return Stop::CloseFlushed;
    }
    if (parsed.error == ParseError::kBodyTooLarge) {
        replyError(context, parsed.frame, Status::kE2big, "Too large.");
    } else {
        replyError(context, parsed.frame, Status::kEinval, "Invalid arguments: lengths");
    }
    return Stop::CloseFlushed;
}

/// The sizes of requests that this connection may make the server hold.
protocol::Limits limitsOf(const CommandContext& context) {
    // A larger request is a broken stream rather than a large value; skipping it could take
    // indefinitely.
    constexpr uint32_t kMaxSkipped = 64U << 20U;
    protocol::Limits limits{.maxSkipped = kMaxSkipped};
    if (!context.session.authenticated()) [[unlikely]] {
        limits.maxBody = static_cast<uint32_t>(context.server.settings.maxBeforeLoginBytes);
    }
    return limits;
}

bool isClientRequest(Magic magic) {
    return magic == Magic::kClientRequest || magic == Magic::kAltClientRequest;
}

Stop stopOf(After after) {
    switch (after) {
        case After::AgainLater:
            return Stop::Waiting;
        case After::Penalty:
            return Stop::Penalty;
        case After::CloseFlushed:
            return Stop::CloseFlushed;
        case After::Close:
        case After::Continue:
            break;
    }
    return Stop::Close;
}

/// Answers a request that is too long, and drops what has arrived of it. Returns false if no other
/// one follows.
bool skip(CommandContext& context, const FrameView& request, size_t arrived, Progress& progress) {
    const size_t here = std::min(request.size(), arrived);
    progress.consumed += here;
    progress.skip = request.size() - here;
    context.stats.requests.add();
    const After after = isClientRequest(request.header.magic) ? refuseTooLong(context, request)
                                                              : After::CloseFlushed;
    if (after != After::Continue) {
        progress.stop = stopOf(after);
        return false;
    }
    if (progress.skip != 0) {
        progress.wanted = protocol::kHeaderSize;
        return false;
    }
    return true;
}

/// Parses an incomplete request again if it will be refused for its length: it is not collected.
ParseResult parseIncomplete(const CommandContext& context, protocol::Bytes input,
                            const ParseResult& parsed) {
    const protocol::Header& header = parsed.frame.header;
    if (parsed.wanted <= protocol::kMaxOtherValue || !isClientRequest(header.magic)) {
        return parsed;
    }
    const uint32_t parts = uint32_t{header.framingLength} + header.extrasLength + header.keyLength;
    if (header.bodyLength - parts <= protocol::ruleOf(header.opcode).longestValue) {
        return parsed;
    }
    protocol::Limits limits = limitsOf(context);
    limits.maxBody = parts;
    return protocol::parseFrame(input, limits);
}

}  // namespace

Progress runRequests(CommandContext& context, protocol::Bytes input, TurnBudget budget) {
    // One guard for the batch: values that handlers drop belong to the bucket. Output buffers use
    // malloc, which charges no bucket.
    const BucketMemoryGuard guard(context.server.bucket.memory());
    options::SelectedInjected::Turn injected;
    Progress progress;
    LookAhead ahead(context, input);
    for (uint32_t done = 0;; ++done) {
        const auto rest = input.subspan(progress.consumed);
        const auto parsed = protocol::parseFrame(rest, limitsOf(context));
        if (parsed.outcome == ParseOutcome::kNeedMore) {
            const auto again = parseIncomplete(context, rest, parsed);
            if (again.outcome == ParseOutcome::kTooLong) {
                skip(context, again.frame, rest.size(), progress);
            } else {
                progress.wanted = again.wanted;
            }
            return progress;
        }
        if (parsed.outcome == ParseOutcome::kBad) {
            progress.stop = refuseStream(context, parsed);
            return progress;
        }
        const bool over = done == budget.requests || context.work >= budget.work;
        if (over || context.out.size() >= budget.outputBytes) {
            progress.stop = over ? Stop::TurnOver : Stop::OutputFull;
            return progress;
        }
        const Magic magic = parsed.frame.header.magic;
        if (parsed.outcome == ParseOutcome::kTooLong) [[unlikely]] {
            if (!skip(context, parsed.frame, rest.size(), progress)) {
                return progress;
            }
            continue;
        }
        progress.consumed += parsed.frame.size();
        ahead.advance();
        if (!isClientRequest(magic)) [[unlikely]] {
            Conversation* conversation = context.session.conversation();
            if (magic == Magic::kClientResponse && conversation != nullptr &&
                conversation->onAnswer(parsed.frame)) {
                continue;
            }
            if (magic == Magic::kServerResponse) {
                continue;  // an answer to a question that was never asked
            }
            progress.stop = Stop::CloseFlushed;
            return progress;
        }
        injected.operation();
        const After after = timedExecute(context, parsed.frame);
        if (after != After::Continue) [[unlikely]] {
            if (after == After::AgainLater) {
                progress.consumed -= parsed.frame.size();
                context.stats.requests.add(~uint64_t{0});  // it is counted when it is executed
            }
            progress.stop = stopOf(after);
            return progress;
        }
    }
}

Progress runLarge(CommandContext& context, LargeRequest request) {
    const BucketMemoryGuard guard(context.server.bucket.memory());
    options::SelectedInjected::Turn injected;
    const FrameView frame = request.view();
    BlobPtr value = request.takeValue();
    context.value = &value;
    injected.operation();
    const After after = timedExecute(context, frame);
    context.value = nullptr;
    // Commands that keep values never wait.
    return {.wanted = protocol::kHeaderSize,
            .stop = after == After::Continue ? Stop::NeedInput : stopOf(after)};
}

}  // namespace kv::server
