// Command handlers: what a handler receives, what it may answer, and the table that maps opcodes to
// handlers.
//
// Threads: handlers run on the front-end thread of their connection, never block, and append their
// answer to `out`. A handler may rely on a successful protocol::validate(). Each file of handlers
// registers its opcodes with CommandTable::add.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "bucket/failover_log.h"
#include "protocol/request_rules.h"
#include "protocol/response.h"
#include "server/commands/session.h"
#include "server/connections/output.h"
#include "server/server_context.h"

namespace kv::server {

/// What the connection does after a command.
enum class After : uint8_t {
    Continue,
    AgainLater,    ///< the command waits for something: nothing was answered, execute it again
    Penalty,       ///< hold the answers back for a while, because a login failed
    CloseFlushed,  ///< close the connection when the answers have been sent
    Close,         ///< close the connection at once; unsent answers are lost
};

/// The framing extras of a request.
struct FrameOptions {
    bool preserveExpiry{false};  ///< an existing document keeps its expiry time
};

struct CommandContext {
    ServerContext& server;
    Session& session;
    Output& out;
    FrontEndStats& stats;
    OpTime now;               ///< read once per wake-up
    FrameOptions options{};   ///< of the current request
    BlobPtr* value{nullptr};  ///< set if the value came in its own Blob; a handler may take it
    PrefixStats* prefixes{server.prefixes.ifOn()};  ///< nullptr: traffic is not counted by prefix
    /// The work of this turn that does not follow from the size of its requests: bytes of stored
    /// values that they have copied, or that could have been copied in the same time.
    size_t work{0};
};

using Handler = After (*)(CommandContext&, const protocol::FrameView&);

/// Runs a handler whose work does not follow from the size of its request, and counts its time: a
/// turn of such requests ends about when one of reads does.
template <Handler handler>
After timed(CommandContext& context, const protocol::FrameView& request) {
    constexpr size_t kBytesPerNano = 4;
    const auto start = std::chrono::steady_clock::now();
    const After after = handler(context, request);
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    context.work += kBytesPerNano * static_cast<size_t>(spent.count());
    return after;
}

struct Command {
    Handler handler{nullptr};
    Needs needs{Needs::Nothing};
    /// Answers a request whose value is too long to be read. nullptr: answer E2big and nothing
    /// else.
    Handler tooLong{nullptr};
    /// The value of the document is the value of the request, so a large one may be read into its
    /// own Blob.
    bool keepsValue{false};
};

class CommandTable {
  public:
    /// Registers every opcode that the server knows.
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

// Each function is in the file of its name.
void addDataOps(CommandTable& table);
void addCounterOps(CommandTable& table);
void addSessionOps(CommandTable& table);
void addStatOps(CommandTable& table);
void addAdminOps(CommandTable& table);
void addObserveOps(CommandTable& table);
void addVersionOps(CommandTable& table);
void addLookupOps(CommandTable& table);
void addDcpOps(CommandTable& table);

/// Appends `response` as the answer to `request`, with the opcode and opaque of the request.
inline void reply(CommandContext& context, const protocol::FrameView& request,
                  protocol::Response response) {
    response.opcode = request.header.opcode;
    response.opaque = request.header.opaque;
    uint8_t* to = context.out.reserve(response.size());
    context.out.commit(protocol::writeResponse(to, response));
}

/// As reply(), but without the value, which the caller appends.
inline void replyHead(CommandContext& context, const protocol::FrameView& request,
                      protocol::Response response) {
    response.opcode = request.header.opcode;
    response.opaque = request.header.opaque;
    uint8_t* to = context.out.reserve(response.size() - response.value.size());
    context.out.commit(protocol::writeHead(to, response));
}

/// Appends a success whose body is `value`.
inline void replyValue(CommandContext& context, const protocol::FrameView& request,
                       protocol::Bytes value) {
    protocol::Response response;
    response.value = value;
    reply(context, request, response);
}

/// Answers with the histories of a vBucket: the uuid and the first seqno of each, newest first.
void replyFailoverLog(CommandContext& context, const protocol::FrameView& request,
                      const std::vector<FailoverEntry>& log);

/// Appends an error whose body is plain text: old clients look at the status only if there is a
/// body.
inline void replyError(CommandContext& context, const protocol::FrameView& request,
                       protocol::Status status, std::string_view text) {
    protocol::Response response;
    response.status = status;
    response.value = protocol::asBytes(text);
    reply(context, request, response);
}

/// Returns a copy that is safe to log: a client's name cannot imitate further log lines.
std::string loggable(std::string_view text);

/// Answers a refusal of the bucket (any status but Ok) with the status of the protocol.
void replyRefusal(CommandContext& context, const protocol::FrameView& request, OpStatus status);

enum class IfDead : uint8_t { Refuse, Accept };

/// Returns the vBucket that the request names; answers NotMyVbucket if it is not here, or dead and
/// refused.
VBucket* vbucketOf(CommandContext& context, const protocol::FrameView& request,
                   IfDead ifDead = IfDead::Refuse);

/// Checks one request and runs its handler.
After execute(CommandContext& context, const protocol::FrameView& request);

/// Answers a request that is longer than the connection may send (ParseOutcome::kTooLong).
After refuseTooLong(CommandContext& context, const protocol::FrameView& request);

}  // namespace kv::server
