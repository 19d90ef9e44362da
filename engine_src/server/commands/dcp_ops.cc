// The DCP commands of a connection: open it as a producer, set it up, open and close streams.

#include "server/commands/command.h"
#include "server/replication/dcp_producer_connection.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

namespace {

constexpr size_t kMaxNameBytes = 200;

/// Returns the producer of the connection; answers the request if there is none.
DcpProducerConnection* producerOf(CommandContext& context, const FrameView& request) {
    auto* producer = dynamic_cast<DcpProducerConnection*>(context.session.conversation());
    if (producer == nullptr) {
        replyError(context, request, Status::kEinval, "Not opened as a DCP producer");
    }
    return producer;
}

void replyStatus(CommandContext& context, const FrameView& request, Status status,
                 std::string_view text) {
    if (status == Status::kSuccess) {
        reply(context, request, {});
    } else if (status == Status::kNotMyVbucket) {
        replyRefusal(context, request, OpStatus::NotMyVbucket);
    } else {
        replyError(context, request, status, text);
    }
}

After open(CommandContext& context, const FrameView& request) {
    namespace flags = protocol::dcp_open;
    const uint32_t asked = protocol::decodeDcpOpenFlags(request.extras);
    if (context.server.dcp == nullptr || (asked & flags::kProducer) == 0 ||
        (asked & ~(flags::kProducer | flags::kDeleteTimes)) != 0) {
        replyError(context, request, Status::kNotSupported,
                   "Only plain producers, with or without delete times, are supported");
        return After::Continue;
    }
    if (request.key.size() > kMaxNameBytes || context.session.conversation() != nullptr) {
        replyError(context, request, Status::kEinval, "Invalid arguments: name, or opened already");
        return After::Continue;
    }
    if (!context.server.dcp->mayConnect(context.session.user())) {
        replyError(context, request, Status::kEtmpfail, "Too many DCP connections");
        return After::Continue;
    }
    // The conversation belongs to the connection; the memory of its streams belongs to the bucket.
    const NonBucketGuard nobody;
    // The connection number distinguishes the cursors of clients with the same name.
    const std::string name =
            std::to_string(context.session.id()) + ":" + loggable(request.keyText());
    context.session.converse(std::make_unique<DcpProducerConnection>(
            DcpProducerConnection::Client{name, context.session.user()}, *context.server.dcp,
            context.session.waker(), asked));
    reply(context, request, {});
    return After::Continue;
}

After control(CommandContext& context, const FrameView& request) {
    if (auto* producer = producerOf(context, request)) {
        replyStatus(context, request, producer->control(request.keyText(), request.valueText()),
                    "Unknown DCP control, or a value it cannot have");
    }
    return After::Continue;
}

After streamRequest(CommandContext& context, const FrameView& request) {
    auto* producer = producerOf(context, request);
    if (producer == nullptr) {
        return After::Continue;
    }
    if (!request.value.empty()) {
        replyError(context, request, Status::kNotSupported, "Filters are not supported");
        return After::Continue;
    }
    const auto answer = producer->openStream(Vbid{request.header.vbucket()}, request.header.opaque,
                                             protocol::decodeDcpStreamRequest(request.extras));
    if (const auto* log = std::get_if<std::vector<FailoverEntry>>(&answer)) {
        replyFailoverLog(context, request, *log);
    } else if (const auto* back = std::get_if<Seqno>(&answer)) {
        const auto bytes = protocol::encodeU64(back->get());
        Response response;
        response.status = Status::kRollback;
        response.value = bytes;
        reply(context, request, response);
    } else {
        replyStatus(context, request, std::get<Status>(answer), "Stream refused");
    }
    return After::Continue;
}

After closeStream(CommandContext& context, const FrameView& request) {
    if (auto* producer = producerOf(context, request)) {
        const bool closed = producer->closeStream(Vbid{request.header.vbucket()});
        replyStatus(context, request, closed ? Status::kSuccess : Status::kKeyEnoent,
                    "No such stream");
    }
    return After::Continue;
}

After bufferAck(CommandContext& context, const FrameView& request) {
    // Acknowledgements are not answered.
    if (auto* producer = producerOf(context, request)) {
        producer->acknowledged(protocol::decodeU32(request.extras));
    }
    return After::Continue;
}

After failoverLog(CommandContext& context, const FrameView& request) {
    if (const VBucket* vbucket = vbucketOf(context, request)) {
        replyFailoverLog(context, request, vbucket->failoverLog().entries());
    }
    return After::Continue;
}

After dcpNoop(CommandContext& context, const FrameView& request) {
    reply(context, request, {});
    return After::Continue;
}

}  // namespace

void addDcpOps(CommandTable& table) {
    using enum Needs;
    table.add({Opcode::kDcpOpen}, {timed<open>, Read});
    table.add({Opcode::kDcpControl}, {timed<control>, Read});
    table.add({Opcode::kDcpStreamReq}, {timed<streamRequest>, Read});
    table.add({Opcode::kDcpCloseStream}, {timed<closeStream>, Read});
    table.add({Opcode::kDcpBufferAck}, {bufferAck, Read});
    table.add({Opcode::kDcpGetFailoverLog}, {timed<failoverLog>, Read});
    table.add({Opcode::kDcpNoop}, {dcpNoop, Read});
}

}  // namespace kv::server
