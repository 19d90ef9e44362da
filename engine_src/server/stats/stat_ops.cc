// STAT: one answer per key, then an empty one. stats.cc has the groups.
#include "server/commands/command.h"
#include "server/stats/stats.h"

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
        case Status::kEtmpfail:
            return "No memory for the answer";
        default:
            return "No such group of statistics, or no such document";
    }
}

/// Groups that change something for all clients.
bool isAdministration(std::string_view group) {
    return group == "reset" || group == "detail on" || group == "detail off";
}

/// Returns true if the session's job has the answer to `group`; the first call asks the collector.
bool collected(CommandContext& context, std::string_view group) {
    auto& job = context.session.statJob();
    if (!job) {
        const NonBucketGuard nobody;
        job = context.server.statCollector->ask(group, context.session.waker(),
                                                context.session.user());
    }
    return job->done();
}

void answerWith(CommandContext& context, const FrameView& request, const StatAnswer& answer) {
    context.prefixes = context.server.prefixes.ifOn();
    if (answer.status != Status::kSuccess) {
        replyError(context, request, answer.status, whyNone(answer.status));
        return;
    }
    for (const auto& [key, value] : answer.values) {
        Response response;
        response.key = protocol::asBytes(key);
        response.value = protocol::asBytes(value);
        reply(context, request, response);
    }
    reply(context, request, {});
}

After stat(CommandContext& context, const FrameView& request) {
    const std::string_view group = request.keyText();
    const bool administration = isAdministration(group);
    if (administration && !context.session.allows(Needs::Admin)) {
        replyError(context, request, Status::kEaccess, "Not allowed for this user");
        return After::Continue;
    }
    if (administration || context.server.statCollector == nullptr) {
        answerWith(context, request, collectStats(context.server, group));
        return After::Continue;
    }
    if (!collected(context, group)) {
        return After::AgainLater;
    }
    answerWith(context, request, context.session.statJob()->answer());
    const NonBucketGuard nobody;  // the collector's result is charged to no bucket
    context.session.statJob().reset();
    return After::Continue;
}

}  // namespace

void addStatOps(CommandTable& table) {
    table.add({Opcode::kStat}, {stat, Needs::Login});
}

}  // namespace kv::server
