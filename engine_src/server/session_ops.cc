// Commands about the connection itself: negotiation, login, bucket, cluster map.

#include <algorithm>

#include "logging/log.h"
#include "protocol/extras.h"
#include "server/command.h"
#include "server/error_map.h"
#include "server/version.h"

namespace kv::server {

using protocol::Feature;
using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

namespace {

constexpr size_t kMaxAgentLength = 256;

void replyText(CommandContext& context, const FrameView& request, std::string_view text,
               Status status = Status::kSuccess) {
    Response response;
    response.status = status;
    response.value = protocol::asBytes(text);
    reply(context, request, response);
}

/// A printable, bounded copy of what a client calls itself, for the log.
std::string agentName(std::string_view text) {
    std::string agent(text.substr(0, kMaxAgentLength));
    std::replace_if(
            agent.begin(), agent.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return agent;
}

/// True when the feature is served; sets what it switches on.
bool accept(Feature feature, Session::Features& features) {
    switch (feature) {
        case Feature::kTcpNoDelay:
        case Feature::kAltRequest:
        case Feature::kSyncReplication:
        case Feature::kPreserveTtl:
            return true;  // always on
        case Feature::kMutationSeqno:
            return features.mutationSeqno = true;
        case Feature::kXError:
            return features.xerror = true;
        case Feature::kSelectBucket:
            return features.selectBucket = true;
        case Feature::kJson:
            return features.json = true;
        case Feature::kGetClusterConfigWithKnownVersion:
            return features.configWithKnownVersion = true;
        case Feature::kDedupeNotMyVbucket:
            return features.dedupeNotMyVbucket = true;
        default:
            return false;
    }
}

After hello(CommandContext& context, const FrameView& request) {
    if (request.value.size() % 2 != 0) {
        replyError(context, request, Status::kEinval, "Invalid arguments: odd feature list");
        return After::Continue;
    }
    Session::Features features;
    std::vector<uint8_t> accepted;
    for (size_t at = 0; at < request.value.size(); at += 2) {
        const auto code = loadBig<uint16_t>(request.value.data() + at);
        if (accept(static_cast<Feature>(code), features)) {
            accepted.resize(accepted.size() + 2);
            storeBig(accepted.data() + accepted.size() - 2, code);
        }
    }
    context.session.hello(features, agentName(request.keyText()));
    log::debug("connection {}: hello from {}", context.session.id(), context.session.agent());
    Response response;
    response.value = accepted;
    reply(context, request, response);
    return After::Continue;
}

After listMechanisms(CommandContext& context, const FrameView& request) {
    // Listed without users, too: SDKs log in in any case, libcouchbase with an empty list would
    // not.
    replyText(context, request, kSaslMechanisms);
    return After::Continue;
}

After loginFailed(CommandContext& context, const FrameView& request) {
    context.stats.authErrors.add();
    context.session.login().reset();
    replyError(context, request, Status::kAuthError, "Auth failure");
    const unsigned failures = context.session.loginFailed();
    log::info("connection {}: login failed ({} in a row)", context.session.id(), failures);
    return failures >= context.server.settings.maxFailedLogins ? After::CloseFlushed
                                                               : After::Penalty;
}

After answerLogin(CommandContext& context, const FrameView& request, const SaslAnswer& answer) {
    auto& login = context.session.login();
    switch (answer.status) {
        case SaslStatus::Continue:
            replyText(context, request, answer.message, Status::kAuthContinue);
            return After::Continue;
        case SaslStatus::Success:
            context.session.loggedIn(login->user(), context.server.users->role(login->user()));
            login.reset();
            replyText(context, request,
                      answer.message.empty() ? std::string_view("Authenticated") : answer.message);
            return After::Continue;
        case SaslStatus::Failure:
            break;
    }
    return loginFailed(context, request);
}

/// Without users there is nothing to check a login against. PLAIN can be granted as it is; SCRAM
/// makes the server prove that it knows the password too, so it is answered with success at once,
/// which clients take as "nothing to prove".
After loginWithoutUsers(CommandContext& context, const FrameView& request) {
    replyText(context, request, "Authenticated");
    return After::Continue;
}

After saslAuth(CommandContext& context, const FrameView& request) {
    if (context.server.users == nullptr) {
        return loginWithoutUsers(context, request);
    }
    auto& login = context.session.login();
    login.emplace(*context.server.users);
    return answerLogin(context, request, login->start(request.keyText(), request.valueText()));
}

After saslStep(CommandContext& context, const FrameView& request) {
    auto& login = context.session.login();
    if (!login) {
        replyError(context, request, Status::kAuthError, "Auth failure: no login under way");
        return After::Continue;
    }
    return answerLogin(context, request, login->step(request.keyText(), request.valueText()));
}

After selectBucket(CommandContext& context, const FrameView& request) {
    if (request.keyText() == "@no bucket@") {
        context.session.selectBucket(false);
        reply(context, request, {});
    } else if (request.keyText() == context.server.bucket.name()) {
        context.session.selectBucket(true);
        reply(context, request, {});
    } else {
        // The same for "does not exist" and "not yours": names are not to be guessed.
        replyError(context, request, Status::kEaccess, "No access to that bucket");
    }
    return After::Continue;
}

After clusterConfig(CommandContext& context, const FrameView& request) {
    Response response;
    const auto config = context.server.config.current();
    const bool known = request.extras.size() == 16 &&
                       protocol::decodeConfigVersion(request.extras) >= config->version();
    if (!known) {
        response.value = protocol::asBytes(config->json());
        if (context.session.features().json) {
            response.datatype = protocol::Datatype::kJson;
        }
    }
    reply(context, request, response);
    return After::Continue;
}

After errorMap(CommandContext& context, const FrameView& request) {
    if (request.value.size() != 2 || loadBig<uint16_t>(request.value.data()) == 0) {
        replyError(context, request, Status::kEinval, "Invalid arguments: error map version");
        return After::Continue;
    }
    const auto asked = loadBig<uint16_t>(request.value.data());
    Response response;
    response.value = protocol::asBytes(errorMapJson(asked));
    if (context.session.features().json) {
        response.datatype = protocol::Datatype::kJson;
    }
    reply(context, request, response);
    return After::Continue;
}

After noop(CommandContext& context, const FrameView& request) {
    reply(context, request, {});
    return After::Continue;
}

After version(CommandContext& context, const FrameView& request) {
    replyText(context, request, kVersion);
    return After::Continue;
}

After quit(CommandContext& context, const FrameView& request) {
    if (!isQuiet(request.header.opcode)) {
        reply(context, request, {});
    }
    return After::CloseFlushed;
}

}  // namespace

void addSessionOps(CommandTable& table) {
    using enum Needs;
    table.add({Opcode::kHello}, {hello, Nothing});
    table.add({Opcode::kSaslListMechs}, {listMechanisms, Nothing});
    table.add({Opcode::kSaslAuth}, {saslAuth, Nothing});
    table.add({Opcode::kSaslStep}, {saslStep, Nothing});
    table.add({Opcode::kGetErrorMap}, {errorMap, Nothing});
    table.add({Opcode::kNoop}, {noop, Nothing});
    table.add({Opcode::kVersion}, {version, Nothing});
    table.add({Opcode::kQuit}, {quit, Nothing});
    table.add({Opcode::kQuitQ}, {quit, Nothing});
    table.add({Opcode::kSelectBucket}, {selectBucket, Login});
    table.add({Opcode::kGetClusterConfig}, {clusterConfig, Login});
}

}  // namespace kv::server
