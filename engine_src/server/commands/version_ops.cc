// Commands that store versions of documents from another cluster, with their CAS and revision.
// Replication between clusters and restores from a backup send them.
#include "options/selected/injected.h"
#include "protocol/extras.h"
#include "server/commands/bucket_job.h"
#include "server/commands/command.h"
#include "server/commands/op_target.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;

namespace {

constexpr uint32_t kKnownOptions = protocol::kSkipConflictResolution |
                                   protocol::kForceAcceptWithMeta | protocol::kRegenerateCas |
                                   protocol::kIsExpiration;

constexpr bool isDelete(Opcode opcode) {
    return opcode == Opcode::kDeleteWithMeta || opcode == Opcode::kDeleteWithMetaQ;
}
constexpr bool isAdd(Opcode opcode) {
    return opcode == Opcode::kAddWithMeta || opcode == Opcode::kAddWithMetaQ;
}

/// Returns why the extras contradict each other; empty if they do not.
constexpr std::string_view fault(const protocol::VersionExtras& extras, Opcode opcode) {
    const bool skips = (extras.options & protocol::kSkipConflictResolution) != 0;
    const bool renews = (extras.options & protocol::kRegenerateCas) != 0;
    if ((extras.options & ~kKnownOptions) != 0) {
        return "Invalid arguments: unknown options";
    }
    if (extras.cas == 0 || extras.cas >= kForeignCasBound) {
        return "Invalid arguments: CAS";
    }
    if (extras.revision >= kForeignRevSeqnoBound) {
        return "Invalid arguments: revision";
    }
    if (renews && !skips) {
        return "Invalid arguments: a new CAS cannot be compared";
    }
    if ((extras.options & protocol::kIsExpiration) != 0 && !isDelete(opcode)) {
        return "Invalid arguments: an expiration is a deletion";
    }
    return {};
}

After storeVersion(CommandContext& context, const FrameView& request) {
    const Opcode opcode = request.header.opcode;
    const auto extras = protocol::decodeVersionExtras(request.extras);
    if (const auto text = fault(extras, opcode); !text.empty()) {
        replyError(context, request, Status::kEinval, text);
        return After::Continue;
    }
    const VersionArgs version{
            .deleted = isDelete(opcode),
            .revSeqno = extras.revision,
            .cas = Cas{extras.cas},
            .flags = extras.flags,
            .exptime = extras.expiry,
            .datatype = request.header.datatype,
            .expected = Cas{request.header.cas},
            .onlyNew = isAdd(opcode),
            .overrule = (extras.options & protocol::kSkipConflictResolution) != 0,
            .renewCas = (extras.options & protocol::kRegenerateCas) != 0,
            .expiration = (extras.options & protocol::kIsExpiration) != 0,
    };
    const Vbid vbid = targetOf(context, request);
    const auto done = withStored(context, vbid, request.keyText(), [&](const auto* stored) {
        return context.server.bucket.storeVersion(vbid, request.keyText(), request.valueText(),
                                                  version, context.now, stored);
    });
    if (!done) {
        return After::AgainLater;
    }
    context.stats.sets.add();
    count(context, request,
          isDelete(opcode) ? PrefixStats::Event::Delete : PrefixStats::Event::Set);
    options::SelectedInjected::stored();
    replyMutation(context, request, *done);
    return After::Continue;
}

}  // namespace

void addVersionOps(CommandTable& table) {
    // They may wait for the disk, so their values are not read in place (Command::keepsValue).
    table.add({Opcode::kSetWithMeta, Opcode::kSetWithMetaQ, Opcode::kAddWithMeta,
               Opcode::kAddWithMetaQ, Opcode::kDeleteWithMeta, Opcode::kDeleteWithMetaQ},
              {timed<storeVersion>, Needs::Write});
}

}  // namespace kv::server
