// Commands that read and change documents: nearly all traffic.
#include <zlib.h>

#include "options/selected/injected.h"
#include "protocol/extras.h"
#include "server/commands/bucket_job.h"
#include "server/commands/command.h"
#include "server/commands/expiry.h"
#include "server/commands/op_target.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

void replyMutation(CommandContext& context, const FrameView& request, const OpResult& result,
                   protocol::Bytes value) {
    if (!result.ok()) {
        replyRefusal(context, request, result.status);
        return;
    }
    if (isQuiet(request.header.opcode)) {
        return;
    }
    Response response;
    response.cas = result.cas.get();
    response.value = value;
    if (context.session.features().mutationSeqno) {
        const auto token = protocol::encodeMutationToken(result.vbuuid.get(), result.seqno.get());
        response.extras = token;
        reply(context, request, response);
        return;
    }
    reply(context, request, response);
}

// Not inlined: operations pay for it only while it is on.
[[gnu::cold, gnu::noinline]] void countByPrefix(CommandContext& context, const FrameView& request,
                                                PrefixStats::Event event) {
    context.prefixes->count(request.keyText(), event);
}

namespace {

constexpr bool answersKey(Opcode opcode) {
    return opcode == Opcode::kGetK || opcode == Opcode::kGetKQ || opcode == Opcode::kGatK ||
           opcode == Opcode::kGatKQ;
}

void replyMiss(CommandContext& context, const FrameView& request) {
    if (isQuiet(request.header.opcode)) {
        return;
    }
    Response response;
    response.status = Status::kKeyEnoent;
    if (answersKey(request.header.opcode)) {
        response.key = request.key;  // memcached answers the K form with the key instead of a text
    } else {
        response.value = protocol::asBytes("Not found");
    }
    reply(context, request, response);
}

}  // namespace

After replyDocument(CommandContext& context, const FrameView& request, const OpResult& result) {
    context.stats.gets.add();
    count(context, request, result.ok() ? PrefixStats::Event::Hit : PrefixStats::Event::Miss);
    if (!result.ok()) {
        if (result.status == OpStatus::KeyNotFound) {
            replyMiss(context, request);
        } else {
            replyRefusal(context, request, result.status);
        }
        return After::Continue;
    }
    context.stats.getHits.add();
    const auto flags = protocol::encodeU32(result.flags);
    Response response;
    response.cas = result.cas.get();
    if (context.session.features().json) {
        response.datatype = result.datatype & protocol::Datatype::kJson;
    }
    response.extras = flags;
    if (answersKey(request.header.opcode)) {
        response.key = request.key;
    }
    response.value = protocol::asBytes(result.value.view());
    if (response.value.size() < Output::kShareFrom) [[likely]] {
        reply(context, request, response);
    } else {
        replyHead(context, request, response);
        context.out.share(result.value, context.server.bucket.memory());
    }
    return After::Continue;
}

namespace {

After get(CommandContext& context, const FrameView& request) {
    return replyDocument(
            context, request,
            context.server.bucket.get(targetOf(context, request), request.keyText(), context.now));
}

After getAndTouch(CommandContext& context, const FrameView& request) {
    context.stats.otherMutations.add();
    const uint32_t expiry = absoluteExpiry(protocol::decodeU32(request.extras), context.now);
    return replyDocument(context, request,
                         context.server.bucket.getAndTouch(targetOf(context, request),
                                                           request.keyText(), expiry, context.now));
}

After getAndLock(CommandContext& context, const FrameView& request) {
    return replyDocument(
            context, request,
            context.server.bucket.getAndLock(targetOf(context, request), request.keyText(),
                                             protocol::decodeU32(request.extras), context.now));
}

After unlock(CommandContext& context, const FrameView& request) {
    const auto result = context.server.bucket.unlock(targetOf(context, request), request.keyText(),
                                                     Cas{request.header.cas}, context.now);
    if (!result.ok()) {
        replyRefusal(context, request, result.status);
    } else {
        reply(context, request, {});
    }
    return After::Continue;
}

After getMeta(CommandContext& context, const FrameView& request) {
    if (!request.extras.empty() && request.extras[0] != 1 && request.extras[0] != 2) {
        replyError(context, request, Status::kEinval, "Invalid arguments: version of the answer");
        return After::Continue;
    }
    const Vbid vbid = targetOf(context, request);
    const auto found = withStored(context, vbid, request.keyText(), [&](const auto* stored) {
        return context.server.bucket.getMeta(vbid, request.keyText(), context.now, stored);
    });
    if (!found) {
        return After::AgainLater;
    }
    const OpResult& result = *found;
    if (!result.ok()) {
        if (result.status != OpStatus::KeyNotFound) {
            replyRefusal(context, request, result.status);
        } else {
            replyMiss(context, request);
        }
        return After::Continue;
    }
    const bool withDatatype = !request.extras.empty() && request.extras[0] == 2;
    const auto meta = protocol::encodeMeta(
            {result.deleted, result.flags, result.exptime, result.number, result.datatype});
    Response response;
    response.cas = result.cas.get();
    response.extras = protocol::Bytes(meta).first(withDatatype ? 21 : 20);
    reply(context, request, response);
    return After::Continue;
}

constexpr StoreMode modeOf(Opcode opcode) {
    if (opcode == Opcode::kAdd || opcode == Opcode::kAddQ) {
        return StoreMode::Add;
    }
    return opcode == Opcode::kReplace || opcode == Opcode::kReplaceQ ? StoreMode::Replace
                                                                     : StoreMode::Set;
}

/// On a plain memcached connection, a set whose value is too long also removes the old value. A
/// reader must not get a value that its writer meant to overwrite.
After refuseLongValue(CommandContext& context, const FrameView& request) {
    if (!context.session.couchbase() && modeOf(request.header.opcode) == StoreMode::Set) {
        context.server.bucket.remove(targetOf(context, request), request.keyText(), Cas{},
                                     context.now);
    }
    replyRefusal(context, request, OpStatus::TooBig);
    return After::Continue;
}

After store(CommandContext& context, const FrameView& request) {
    context.stats.sets.add();
    count(context, request, PrefixStats::Event::Set);
    options::SelectedInjected::stored();
    if (request.value.size() > protocol::kMaxMemcachedValue && !context.session.couchbase()) {
        return refuseLongValue(context, request);
    }
    const Vbid vbid = targetOf(context, request);
    const auto extras = protocol::decodeStoreExtras(request.extras);
    const StoreArgs args{.flags = extras.flags,
                         .exptime = absoluteExpiry(extras.expiry, context.now),
                         .datatype = request.header.datatype,
                         .preserveExpiry = context.options.preserveExpiry,
                         .cas = Cas{request.header.cas}};
    const auto mode = modeOf(request.header.opcode);
    if (mode == StoreMode::Add && request.header.cas != 0) {
        replyError(context, request, Status::kEinval, "Invalid arguments: CAS with add");
        return After::Continue;
    }
    auto& bucket = context.server.bucket;
    replyMutation(context, request,
                  context.value == nullptr
                          ? bucket.store(vbid, request.keyText(), mode, request.valueText(), args,
                                         context.now)
                          : bucket.store(vbid, request.keyText(), mode, std::move(*context.value),
                                         args, context.now));
    return After::Continue;
}

After concat(CommandContext& context, const FrameView& request) {
    context.stats.sets.add();
    count(context, request, PrefixStats::Event::Set);
    options::SelectedInjected::stored();
    const Opcode opcode = request.header.opcode;
    const auto where = opcode == Opcode::kAppend || opcode == Opcode::kAppendQ ? Concat::Append
                                                                               : Concat::Prepend;
    const size_t mostBytes =
            context.session.couchbase() ? SIZE_MAX : size_t{protocol::kMaxMemcachedValue};
    const auto result = context.server.bucket.concat(
            targetOf(context, request), request.keyText(), where, request.valueText(),
            Cas{request.header.cas}, context.now, mostBytes);
    context.work += result.number;
    replyMutation(context, request, result);
    return After::Continue;
}

After remove(CommandContext& context, const FrameView& request) {
    context.stats.otherMutations.add();
    count(context, request, PrefixStats::Event::Delete);
    auto result = context.server.bucket.remove(targetOf(context, request), request.keyText(),
                                               Cas{request.header.cas}, context.now);
    if (!context.session.couchbase()) {
        result.cas = Cas{};  // memcached: a deleted document has no CAS
    }
    replyMutation(context, request, result);
    return After::Continue;
}

After touch(CommandContext& context, const FrameView& request) {
    context.stats.otherMutations.add();
    const uint32_t expiry = absoluteExpiry(protocol::decodeU32(request.extras), context.now);
    replyMutation(context, request,
                  context.server.bucket.touch(targetOf(context, request), request.keyText(), expiry,
                                              context.now));
    return After::Continue;
}

}  // namespace

void addDataOps(CommandTable& table) {
    using enum Needs;
    table.add({Opcode::kGet, Opcode::kGetQ, Opcode::kGetK, Opcode::kGetKQ}, {get, Read});
    table.add({Opcode::kGetMeta, Opcode::kGetMetaQ}, {timed<getMeta>, Read});
    table.add({Opcode::kGat, Opcode::kGatQ, Opcode::kGatK, Opcode::kGatKQ}, {getAndTouch, Write});
    table.add({Opcode::kGetLocked}, {getAndLock, Write});
    table.add({Opcode::kUnlockKey}, {unlock, Write});
    table.add({Opcode::kSet, Opcode::kSetQ, Opcode::kAdd, Opcode::kAddQ, Opcode::kReplace,
               Opcode::kReplaceQ},
              {store, Write, refuseLongValue, true});
    table.add({Opcode::kAppend, Opcode::kAppendQ, Opcode::kPrepend, Opcode::kPrependQ},
              {concat, Write});
    table.add({Opcode::kDelete, Opcode::kDeleteQ}, {remove, Write});
    table.add({Opcode::kTouch}, {touch, Write});
}

}  // namespace kv::server
