// STAT: one answer per key, then an empty one. The groups themselves are in stats.cc.
#include "server/command.h"
#include "server/stats.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

namespace {

constexpr std::string_view whyNone(Status status) {
    switch (status) {
        case Status::kEinval:
            return "Invalid arguments: a number of a vBucket is expected";
        case Status::kNotMyVbucket:
            return "No such vBucket";
        default:
            return "No such group of statistics, or no such document";
    }
}

/// Groups that change something for everybody.
bool isAdministration(std::string_view group) {
    return group == "reset" || group == "detail on" || group == "detail off";
}

After stat(CommandContext& context, const FrameView& request) {
    if (isAdministration(request.keyText()) && !context.session.allows(Needs::Admin)) {
        replyError(context, request, Status::kEaccess, "Not allowed for this user");
        return After::Continue;
    }
    const auto answer = collectStats(context.server, request.keyText());
    context.prefixes = context.server.prefixes.ifOn();
    if (answer.status != Status::kSuccess) {
        replyError(context, request, answer.status, whyNone(answer.status));
        return After::Continue;
    }
    for (const auto& [key, value] : answer.values) {
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
    table.add({Opcode::kStat}, {stat, Needs::Login});
}

}  // namespace kv::server
