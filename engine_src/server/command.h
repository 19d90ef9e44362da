// A command at work: what a handler gets, what it may answer, and the table that maps opcodes to
// handlers.
//
// Handlers run on the connection's front-end thread, never block, and append their answer to `out`.
// A handler may rely on protocol::validate having passed. Other rooms (DCP) register their opcodes
// with CommandTable::add.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "protocol/request_rules.h"
#include "protocol/response.h"
#include "server/output.h"
#include "server/server_context.h"
#include "server/session.h"

namespace kv::server {

/// What becomes of the connection after a command.
enum class After : uint8_t {
    Continue,
    AgainLater,    ///< what it waits for has not come: nothing was answered, execute it again
    Penalty,       ///< hold the answers back for a while: a login failed
    CloseFlushed,  ///< close when the answers have been sent
    Close,         ///< close at once; what could be sent is lost
};

/// What the framing extras of a request ask for.
struct FrameOptions {
    bool preserveExpiry{false};  ///< a document that exists keeps its expiry time
};

struct CommandContext {
    ServerContext& server;
    Session& session;
    Output& out;
    FrontEndStats& stats;
    OpTime now;               ///< read once per wake-up
    FrameOptions options{};   ///< of the request at work
    BlobPtr* value{nullptr};  ///< where it came in a Blob of its own; a handler may take it
    PrefixStats* prefixes{server.prefixes.ifOn()};  ///< nullptr: traffic is not counted by prefix
};

using Handler = After (*)(CommandContext&, const protocol::FrameView&);

struct Command {
    Handler handler{nullptr};
    Needs needs{Needs::Nothing};
    /// Answers a request whose value is too long to be looked at; nullptr: E2big, no more.
    Handler tooLong{nullptr};
    /// The document's value is the request's: a large one may come in a Blob of its own.
    bool keepsValue{false};
};

class CommandTable {
  public:
    /// Every opcode that this room serves.
    CommandTable();

    void add(std::initializer_list<protocol::Opcode> opcodes, Command command) {
        for (const auto opcode : opcodes) {
            commands_[protocol::raw(opcode)] = command;
        }
    }
    [[nodiscard]] const Command& at(protocol::Opcode opcode) const {
        return commands_[protocol::raw(opcode)];
    }

  private:
    std::array<Command, 256> commands_{};
};

// Each in the file of its name.
void addDataOps(CommandTable& table);
void addCounterOps(CommandTable& table);
void addSessionOps(CommandTable& table);
void addStatOps(CommandTable& table);
void addAdminOps(CommandTable& table);
void addObserveOps(CommandTable& table);
void addVersionOps(CommandTable& table);
void addDcpOps(CommandTable& table);

/// Appends `response` as the answer to `request`: opcode and opaque are the request's.
inline void reply(CommandContext& context, const protocol::FrameView& request,
                  protocol::Response response) {
    response.opcode = request.header.opcode;
    response.opaque = request.header.opaque;
    uint8_t* to = context.out.reserve(response.size());
    context.out.commit(protocol::writeResponse(to, response));
}

/// The same without the value, which the caller appends.
inline void replyHead(CommandContext& context, const protocol::FrameView& request,
                      protocol::Response response) {
    response.opcode = request.header.opcode;
    response.opaque = request.header.opaque;
    uint8_t* to = context.out.reserve(response.size() - response.value.size());
    context.out.commit(protocol::writeHead(to, response));
}

/// An error whose body is plain text: old clients look at the status only if there is a body.
inline void replyError(CommandContext& context, const protocol::FrameView& request,
                       protocol::Status status, std::string_view text) {
    protocol::Response response;
    response.status = status;
    response.value = protocol::asBytes(text);
    reply(context, request, response);
}

/// Answers a bucket's refusal (any status but Ok) in protocol numbers.
void replyRefusal(CommandContext& context, const protocol::FrameView& request, OpStatus status);

/// Runs one request through checks and handler.
After execute(CommandContext& context, const protocol::FrameView& request);

/// Answers a request that is longer than the connection may send (ParseOutcome::kTooLong).
After refuseTooLong(CommandContext& context, const protocol::FrameView& request);

}  // namespace kv::server
