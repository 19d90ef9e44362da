// Commands that concern the connection itself: negotiation, login, bucket, cluster map.

#include <algorithm>

#include "logging/log.h"
#include "protocol/extras.h"
#include "server/commands/command.h"
#include "server/commands/error_map.h"
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

/// Returns true if the feature is served, and switches it on.
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
    std::vector<uint16_t> codes;  // each code once, however often the client named it
    for (size_t at = 0; at < request.value.size(); at += 2) {
        const auto code = loadBig<uint16_t>(request.value.data() + at);
        const bool known = std::find(codes.begin(), codes.end(), code) != codes.end();
        if (!known && accept(static_cast<Feature>(code), features)) {
            codes.push_back(code);
        }
    }
    context.session.hello(features, loggable(request.keyText().substr(0, kMaxAgentLength)));
    log::debug("connection {}: hello from {}", context.session.id(), context.session.agent());
    std::vector<uint8_t> accepted(2 * codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
        storeBig(accepted.data() + 2 * i, codes[i]);
    }
    Response response;
    response.value = accepted;
    reply(context, request, response);
    return After::Continue;
}

After listMechanisms(CommandContext& context, const FrameView& request) {
    // Also listed without users: SDKs log in in any case, and libcouchbase does not with an empty
    // list.
    replyText(context, request,
              context.session.peer().secret ? kSaslMechanisms : kSaslMechanismsRemote);
    return After::Continue;
}

/// A client that streams DCP keeps its user and its bucket, because its streams were opened for
/// that user. Answers the request if it asks for a change.
bool refusedToDcp(CommandContext& context, const FrameView& request) {
    if (context.session.conversation() == nullptr) {
        return false;
    }
    replyError(context, request, Status::kNotSupported, "Not on a DCP connection");
    return true;
}

After loginFailed(CommandContext& context, const FrameView& request) {
    context.stats.authErrors.add();
    context.server.loginBrake.failed(context.session.login()->user(), context.session.peer().text,
                                     LoginBrake::Clock::now());
    context.session.login().reset();
    replyError(context, request, Status::kAuthError, "Auth failure");
    const unsigned failures = context.session.loginFailed();
    log::info("connection {}: login failed ({} in a row)", context.session.id(), failures);
    return failures >= context.server.settings.maxFailedLogins ? After::CloseFlushed
                                                               : After::Penalty;
}

/// Users may not take the last connections: otherwise one of them could keep administrators out.
After loginSucceeded(CommandContext& context, const FrameView& request, std::string_view message) {
    auto& server = context.server;
    auto& login = context.session.login();
    const std::string user = login->user();
    login.reset();
    const Role role = server.users->role(user);
    ConnectionSlot place;
    if (role != Role::Admin) {
        context.session.leave();
        place = ConnectionSlot(server.userConnections);
        if (server.userConnections.load() > server.settings.maxConnections) {
            server.rejectedConnections.fetch_add(1, std::memory_order_relaxed);
            replyError(context, request, Status::kEtmpfail, "Too many connections");
            return After::CloseFlushed;
        }
    }
    context.session.loggedIn(user, role, std::move(place));
    replyText(context, request, message.empty() ? std::string_view("Authenticated") : message);
    return After::Continue;
}

After answerLogin(CommandContext& context, const FrameView& request, const SaslAnswer& answer) {
    auto& login = context.session.login();
    if (answer.status != SaslStatus::Continue &&
        !context.server.loginBrake.allows(login->user(), context.session.peer().text,
                                          LoginBrake::Clock::now())) {
        // A success is not answered either: it would reveal which guess was right.
        log::info("connection {}: closed, too many failed logins from {}", context.session.id(),
                  context.session.peer().text);
        context.stats.authErrors.add();
        return After::Close;
    }
    switch (answer.status) {
        case SaslStatus::Continue:
            replyText(context, request, answer.message, Status::kAuthContinue);
            return After::Continue;
        case SaslStatus::Success:
            return loginSucceeded(context, request, answer.message);
        case SaslStatus::Failure:
            break;
    }
    return loginFailed(context, request);
}

/// Without users there is nothing to check a login against. PLAIN can be granted as it is. SCRAM
/// makes the server prove that it also knows the password, so SCRAM is answered with success at
/// once, which clients take as "nothing to prove".
After loginWithoutUsers(CommandContext& context, const FrameView& request) {
    replyText(context, request, "Authenticated");
    return After::Continue;
}

After saslAuth(CommandContext& context, const FrameView& request) {
    if (refusedToDcp(context, request)) {
        return After::Continue;
    }
    if (context.server.users == nullptr) {
        return loginWithoutUsers(context, request);
    }
    auto& login = context.session.login();
    login.emplace(*context.server.users);
    if (request.keyText() == "PLAIN" && !context.session.peer().secret) {
        return loginFailed(context, request);
    }
    return answerLogin(context, request, login->start(request.keyText(), request.valueText()));
}

After saslStep(CommandContext& context, const FrameView& request) {
    if (refusedToDcp(context, request)) {
        return After::Continue;
    }
    auto& login = context.session.login();
    if (!login) {
        replyError(context, request, Status::kAuthError, "Auth failure: no login under way");
        return After::Continue;
    }
    return answerLogin(context, request, login->step(request.keyText(), request.valueText()));
}

After selectBucket(CommandContext& context, const FrameView& request) {
    if (refusedToDcp(context, request)) {
        return After::Continue;
    }
    if (request.keyText() == "@no bucket@") {
        context.session.selectBucket(false);
        reply(context, request, {});
    } else if (request.keyText() == context.server.bucket.name()) {
        context.session.selectBucket(true);
        reply(context, request, {});
    } else {
        // The answer is the same for "does not exist" and "no access", so that names cannot be
        // guessed.
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
    table.add({Opcode::kHello}, {timed<hello>, Nothing});
    table.add({Opcode::kSaslListMechs}, {timed<listMechanisms>, Nothing});
    table.add({Opcode::kSaslAuth}, {timed<saslAuth>, Nothing});
    table.add({Opcode::kSaslStep}, {timed<saslStep>, Nothing});
    table.add({Opcode::kGetErrorMap}, {timed<errorMap>, Nothing});
    table.add({Opcode::kNoop}, {noop, Nothing});
    table.add({Opcode::kVersion}, {version, Nothing});
    table.add({Opcode::kQuit}, {quit, Nothing});
    table.add({Opcode::kQuitQ}, {quit, Nothing});
    table.add({Opcode::kSelectBucket}, {timed<selectBucket>, Login});
    table.add({Opcode::kGetClusterConfig}, {timed<clusterConfig>, Login});
}

}  // namespace kv::server
