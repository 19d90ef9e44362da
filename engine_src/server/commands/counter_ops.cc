// Increment and decrement of documents that are decimal numbers.
#include "protocol/extras.h"
#include "server/commands/command.h"
#include "server/commands/expiry.h"
#include "server/commands/op_target.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;

namespace {

After arithmetic(CommandContext& context, const FrameView& request) {
    context.stats.otherMutations.add();
    const auto extras = protocol::decodeCounterExtras(request.extras);
    const Opcode opcode = request.header.opcode;
    const bool create = extras.expiry != protocol::kCounterNoCreate;
    const ArithmeticArgs args{
            .delta = extras.delta,
            .initial = extras.initial,
            .increment = opcode == Opcode::kIncrement || opcode == Opcode::kIncrementQ,
            .createIfMissing = create,
            .exptime = create ? absoluteExpiry(extras.expiry, context.now) : 0,
            .cas = Cas{request.header.cas}};
    const auto result = context.server.bucket.arithmetic(targetOf(context, request),
                                                         request.keyText(), args, context.now);
    const auto number = protocol::encodeU64(result.number);
    replyMutation(context, request, result, number);
    return After::Continue;
}

}  // namespace

void addCounterOps(CommandTable& table) {
    table.add({Opcode::kIncrement, Opcode::kIncrementQ, Opcode::kDecrement, Opcode::kDecrementQ},
              {arithmetic, Needs::Write});
}

}  // namespace kv::server
