#include "server/command.h"

#include "protocol/frame_info.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Magic;
using protocol::Opcode;
using protocol::Status;
using protocol::Violation;

CommandTable::CommandTable() {
    addDataOps(*this);
    addCounterOps(*this);
    addSessionOps(*this);
    addStatOps(*this);
    addAdminOps(*this);
    addDcpOps(*this);
}

namespace {

struct Refusal {
    Status status;
    std::string_view text;
};

constexpr Refusal refusalOf(OpStatus status) {
    switch (status) {
        case OpStatus::Ok:
            break;
        case OpStatus::KeyNotFound:
            return {Status::kKeyEnoent, "Not found"};
        case OpStatus::KeyExists:
            return {Status::kKeyEexists, "Data exists for key."};
        case OpStatus::NotStored:
            return {Status::kNotStored, "Not stored."};
        case OpStatus::TooBig:
            return {Status::kE2big, "Too large."};
        case OpStatus::NotMyVbucket:
            return {Status::kNotMyVbucket, "Not my vBucket"};
        case OpStatus::TmpFail:
            return {Status::kEtmpfail, "Temporary failure"};
        case OpStatus::NoMemory:
            return {Status::kEnomem, "Out of memory"};
        case OpStatus::DeltaBadValue:
            return {Status::kDeltaBadval, "Non-numeric server-side value for incr or decr"};
        case OpStatus::Locked:
            return {Status::kLocked, "Locked"};
        case OpStatus::NotLocked:
            return {Status::kNotLocked, "Not locked"};
        case OpStatus::WouldBlock:
            // No value is ever evicted yet, so nothing can be on disk only; a client may retry this
            // one.
            return {Status::kEtmpfail, "Value is not in memory"};
        case OpStatus::Invalid:
            return {Status::kEinval, "Invalid arguments"};
    }
    return {Status::kEinternal, "Internal error"};
}

/// Framing extras that may be ignored change nothing; all others would be promises that are not
/// kept.
std::optional<Refusal> checkFraming(const FrameView& request) {
    protocol::FrameInfoReader reader(request.framing);
    while (const auto info = reader.next()) {
        // Requests are executed in order, so a barrier is always satisfied.
        if (info->id != static_cast<uint16_t>(protocol::RequestFrameId::kBarrier)) {
            return Refusal{Status::kNotSupported, "Framing extra not supported"};
        }
    }
    if (reader.bad()) {
        return Refusal{Status::kEinval, "Invalid arguments: framing extras"};
    }
    return std::nullopt;
}

After refuseViolation(CommandContext& context, const FrameView& request, Violation violation) {
    const bool tooBig = violation == Violation::ValueTooLong;
    const bool unknown = violation == Violation::UnknownOpcode;
    replyError(context, request,
               unknown ? Status::kUnknownCommand : (tooBig ? Status::kE2big : Status::kEinval),
               toString(violation));
    // memcached's rule, which its test suites check: after an impossible key nothing more is read.
    const bool close = violation == Violation::KeyTooLong && !context.session.couchbase();
    return close ? After::CloseFlushed : After::Continue;
}

After refuseAccess(CommandContext& context, const FrameView& request) {
    if (context.session.dataAccess() == DataAccess::NoBucket && context.session.authenticated()) {
        replyError(context, request, Status::kNoBucket, "No bucket selected");
    } else if (context.session.couchbase()) {
        replyError(context, request, Status::kEaccess, "Not authenticated");
    } else {
        replyError(context, request, Status::kAuthError, "Auth failure.");
    }
    return After::Continue;
}

}  // namespace

void replyRefusal(CommandContext& context, const FrameView& request, OpStatus status) {
    const Refusal refusal = refusalOf(status);
    if (status != OpStatus::NotMyVbucket) {
        replyError(context, request, refusal.status, refusal.text);
        return;
    }
    protocol::Response response;
    response.status = refusal.status;
    if (context.session.couchbase() && context.session.shouldSendConfig()) {
        response.value = protocol::asBytes(context.server.config.json());
        response.datatype = context.session.features().json ? protocol::Datatype::kJson
                                                            : protocol::Datatype::kRaw;
    }
    reply(context, request, response);
}

After execute(CommandContext& context, const FrameView& request) {
    context.stats.requests.add();
    const Command& command = context.server.commands.at(request.header.opcode);
    const Violation violation = protocol::validate(request);
    if (violation != Violation::None || command.handler == nullptr) [[unlikely]] {
        if (violation == Violation::ValueTooLong) {
            return refuseTooLong(context, request);
        }
        return refuseViolation(context, request,
                               command.handler == nullptr ? Violation::UnknownOpcode : violation);
    }
    if (!request.framing.empty()) [[unlikely]] {
        if (const auto refusal = checkFraming(request)) {
            replyError(context, request, refusal->status, refusal->text);
            return After::Continue;
        }
    }
    if (command.needs == Command::Needs::Data) [[likely]] {
        if (context.session.dataAccess() != DataAccess::Granted) [[unlikely]] {
            return refuseAccess(context, request);
        }
        return command.handler(context, request);
    }
    if (command.needs == Command::Needs::Login && !context.session.authenticated()) {
        return refuseAccess(context, request);
    }
    // Everything else allocates for the connection, not for the bucket.
    const NonBucketGuard guard;
    return command.handler(context, request);
}

After refuseTooLong(CommandContext& context, const FrameView& request) {
    const Command& command = context.server.commands.at(request.header.opcode);
    if (command.handler == nullptr) {
        return refuseViolation(context, request, Violation::UnknownOpcode);
    }
    if (request.key.size() > protocol::kMaxKeyLength) {
        return refuseViolation(context, request, Violation::KeyTooLong);
    }
    const bool allowed = command.needs == Command::Needs::Nothing ||
                         (command.needs == Command::Needs::Login
                                  ? context.session.authenticated()
                                  : context.session.dataAccess() == DataAccess::Granted);
    if (!allowed) {
        return refuseAccess(context, request);
    }
    if (command.tooLong != nullptr && !request.key.empty()) {
        return command.tooLong(context, request);
    }
    return refuseViolation(context, request, Violation::ValueTooLong);
}

}  // namespace kv::server
