// STAT: one answer per key, then an empty one. stats.cc has the groups.
#include <utility>

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

/// Bytes of answers after which other connections have their turn: streams of many DCP clients have
/// many figures.
constexpr size_t kPiece = 256 << 10;

/// Answers with the figures from number `next` on, and frees them. Returns false if some are left.
bool answerWith(CommandContext& context, const FrameView& request, StatAnswer& answer, size_t& next,
                size_t most) {
    context.prefixes = context.server.prefixes.ifOn();
    if (answer.status != Status::kSuccess) {
        replyError(context, request, answer.status, whyNone(answer.status));
        return true;
    }
    for (; next != answer.values.size(); ++next) {
        if (context.out.size() >= most) {
            return false;
        }
        const auto [key, value] = std::move(answer.values[next]);
        Response response;
        response.key = protocol::asBytes(key);
        response.value = protocol::asBytes(value);
        reply(context, request, response);
    }
    reply(context, request, {});
    return true;
}

After stat(CommandContext& context, const FrameView& request) {
    const std::string_view group = request.keyText();
    const bool administration = isAdministration(group);
    if (administration && !context.session.allows(Needs::Admin)) {
        replyError(context, request, Status::kEaccess, "Not allowed for this user");
        return After::Continue;
    }
    if (administration || context.server.statCollector == nullptr) {
        StatAnswer answer = collectStats(context.server, group);
        size_t next = 0;
        answerWith(context, request, answer, next, SIZE_MAX);
        return After::Continue;
    }
    if (!collected(context, group)) {
        return After::AgainLater;
    }
    StatJob& job = *context.session.statJob();
    if (!answerWith(context, request, job.answer(), job.answered(), kPiece)) {
        context.session.waker()->wake();
        return After::AgainLater;
    }
    const NonBucketGuard nobody;  // the collector's result is charged to no bucket
    context.session.statJob().reset();
    return After::Continue;
}

}  // namespace

void addStatOps(CommandTable& table) {
    table.add({Opcode::kStat}, {timed<stat>, Needs::Login});
}

}  // namespace kv::server
