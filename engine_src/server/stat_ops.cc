// STAT: one answer per key, then an empty one. The groups themselves are in stats.cc.
#include "server/command.h"
#include "server/stats.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

namespace {

After stat(CommandContext& context, const FrameView& request) {
    const auto group = collectStats(context.server, request.keyText());
    if (!group) {
        replyError(context, request, Status::kKeyEnoent, "No such group of statistics");
        return After::Continue;
    }
    for (const auto& [key, value] : *group) {
        Response response;
        response.key = protocol::asBytes(key);
        response.value = protocol::asBytes(value);
        reply(context, request, response);
    }
    reply(context, request, {});
    return After::Continue;
}

}  // namespace

void addStatOps(CommandTable& table) {
    table.add(Opcode::kStat, {stat, Command::Needs::Login});
}

}  // namespace kv::server
