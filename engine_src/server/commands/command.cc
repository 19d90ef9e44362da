#include "server/commands/command.h"

#include <algorithm>

#include "protocol/extras.h"
#include "protocol/frame_info.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Magic;
using protocol::Opcode;
using protocol::Status;
using protocol::Violation;

CommandTable::CommandTable() {
    addDataOps(*this);
    addVersionOps(*this);
    addCounterOps(*this);
    addSessionOps(*this);
    addStatOps(*this);
    addAdminOps(*this);
    addObserveOps(*this);
    addLookupOps(*this);
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

/// Clients that did not negotiate XERROR know no locks. They see another client's lock as a CAS
/// mismatch if they mutate, and as a temporary failure otherwise.
constexpr Status withoutXerror(Status status, Opcode opcode) {
    if (status == Status::kNotLocked) {
        return Status::kEtmpfail;
    }
    if (status != Status::kLocked) {
        return status;
    }
    switch (opcode) {
        case Opcode::kGetLocked:
        case Opcode::kUnlockKey:
        case Opcode::kDelete:
        case Opcode::kDeleteQ:
            return Status::kEtmpfail;
        default:
            return Status::kKeyEexists;
    }
}

constexpr bool isStore(Opcode opcode) {
    return opcode == Opcode::kSet || opcode == Opcode::kSetQ || opcode == Opcode::kReplace ||
           opcode == Opcode::kReplaceQ;
}
constexpr bool isMutation(Opcode opcode) {
    switch (opcode) {
        case Opcode::kAdd:
        case Opcode::kAddQ:
        case Opcode::kDelete:
        case Opcode::kDeleteQ:
        case Opcode::kIncrement:
        case Opcode::kIncrementQ:
        case Opcode::kDecrement:
        case Opcode::kDecrementQ:
        case Opcode::kAppend:
        case Opcode::kAppendQ:
        case Opcode::kPrepend:
        case Opcode::kPrependQ:
            return true;
        default:
            return isStore(opcode);
    }
}

/// The server waits neither for replicas nor for the disk. Without replicas, one node is the
/// majority, so a mutation is durable as soon as it is made here. With replicas, that cannot be
/// promised.
std::optional<Refusal> checkDurability(const ServerContext& server, Opcode opcode,
                                       protocol::Bytes data) {
    constexpr uint8_t kMajority = 1;
    if (!isMutation(opcode)) {
        return Refusal{Status::kNotSupported, "Durability is for mutations"};
    }
    if (data.size() != 1 && data.size() != 3) {
        return Refusal{Status::kEinval, "Invalid arguments: durability"};
    }
    if (data.size() == 3) {
        const auto millis = loadBig<uint16_t>(data.data() + 1);
        if (millis == 0 || millis == 0xffff) {
            return Refusal{Status::kEinval, "Invalid arguments: durability time-out"};
        }
    }
    if (data[0] != kMajority) {
        return Refusal{Status::kDurabilityInvalidLevel, "Only majority is served"};
    }
    if (server.config.current()->hasReplicas()) {
        return Refusal{Status::kDurabilityImpossible, "Replicas are not waited for"};
    }
    return std::nullopt;
}

/// Each framing extra is either honoured or refused; none is ignored.
std::optional<Refusal> readFrame(const ServerContext& server, const protocol::FrameInfo& info,
                                 Opcode opcode, FrameOptions& options) {
    using Id = protocol::RequestFrameId;
    switch (static_cast<Id>(info.id)) {
        case Id::kBarrier:
            // Requests are executed in order, so a barrier is always satisfied.
            return info.data.empty()
                           ? std::nullopt
                           : std::optional(Refusal{Status::kEinval, "Invalid arguments: barrier"});
        case Id::kDurability:
            return checkDurability(server, opcode, info.data);
        case Id::kPreserveTtl:
            if (!info.data.empty() || opcode == Opcode::kAdd || opcode == Opcode::kAddQ) {
                return Refusal{Status::kEinval, "Invalid arguments: preserve expiry"};
            }
            if (!isMutation(opcode)) {
                return Refusal{Status::kNotSupported, "Preserving the expiry is for mutations"};
            }
            options.preserveExpiry = true;
            return std::nullopt;
        case Id::kDcpStreamId:
        case Id::kImpersonate:
            return Refusal{Status::kNotSupported, "Framing extra not supported"};
    }
    return Refusal{Status::kUnknownFrameInfo, "Unknown framing extra"};
}

std::optional<Refusal> readFraming(const ServerContext& server, const FrameView& request,
                                   FrameOptions& options) {
    protocol::FrameInfoReader reader(request.framing);
    while (const auto info = reader.next()) {
        if (auto refusal = readFrame(server, *info, request.header.opcode, options)) {
            return refusal;
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
    // memcached's rule, which its test suites check: after a key of impossible length nothing more
    // is read.
    const bool close = violation == Violation::KeyTooLong && !context.session.couchbase();
    return close ? After::CloseFlushed : After::Continue;
}

After refuseAccess(CommandContext& context, const FrameView& request, Needs needs) {
    const Session& session = context.session;
    if (session.authenticated() && needsBucket(needs) && !session.hasBucket()) {
        replyError(context, request, Status::kNoBucket, "No bucket selected");
    } else if (session.authenticated()) {
        replyError(context, request, Status::kEaccess, "Not allowed for this user");
    } else if (session.couchbase()) {
        replyError(context, request, Status::kEaccess, "Not authenticated");
    } else {
        replyError(context, request, Status::kAuthError, "Auth failure.");
    }
    return After::Continue;
}

}  // namespace

std::string loggable(std::string_view text) {
    std::string copy(text);
    std::replace_if(
            copy.begin(), copy.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return copy;
}

void replyFailoverLog(CommandContext& context, const FrameView& request,
                      const std::vector<FailoverEntry>& log) {
    std::vector<uint8_t> value;
    for (const auto& entry : log) {
        const auto encoded = protocol::encodeMutationToken(entry.uuid.get(), entry.seqno.get());
        value.insert(value.end(), encoded.begin(), encoded.end());
    }
    replyValue(context, request, value);
}

void replyRefusal(CommandContext& context, const FrameView& request, OpStatus status) {
    Refusal refusal = refusalOf(status);
    if (!context.session.features().xerror) {
        refusal.status = withoutXerror(refusal.status, request.header.opcode);
    }
    if (status != OpStatus::NotMyVbucket) {
        replyError(context, request, refusal.status, refusal.text);
        return;
    }
    protocol::Response response;
    response.status = refusal.status;
    const auto config = context.server.config.current();
    if (context.session.couchbase() && context.session.shouldSendConfig(config->version())) {
        response.value = protocol::asBytes(config->json());
        response.datatype = context.session.features().json ? protocol::Datatype::kJson
                                                            : protocol::Datatype::kRaw;
    }
    reply(context, request, response);
}

VBucket* vbucketOf(CommandContext& context, const FrameView& request, IfDead ifDead) {
    const Vbid vbid{request.header.vbucket()};
    auto& bucket = context.server.bucket;
    if (!bucket.hasVBucket(vbid) ||
        (ifDead == IfDead::Refuse && bucket.vbucket(vbid).state() == VbState::Dead)) {
        replyRefusal(context, request, OpStatus::NotMyVbucket);
        return nullptr;
    }
    return &bucket.vbucket(vbid);
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
    context.options = {};
    if (!request.framing.empty()) [[unlikely]] {
        if (const auto refusal = readFraming(context.server, request, context.options)) {
            replyError(context, request, refusal->status, refusal->text);
            return After::Continue;
        }
    }
    if (!context.session.allows(command.needs)) [[unlikely]] {
        return refuseAccess(context, request, command.needs);
    }
    if (needsBucket(command.needs)) [[likely]] {
        return command.handler(context, request);
    }
    // Everything else is allocated for the connection, not for the bucket.
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
    if (!context.session.allows(command.needs)) {
        return refuseAccess(context, request, command.needs);
    }
    if (command.tooLong != nullptr && !request.key.empty()) {
        return command.tooLong(context, request);
    }
    return refuseViolation(context, request, Violation::ValueTooLong);
}

}  // namespace kv::server
