// Versions of documents that come from another cluster, with the CAS and the revision that they
// have there: what replication between clusters and restores from a backup send.
#include "options/selected/planted.h"
#include "protocol/extras.h"
#include "server/command.h"
#include "server/op_target.h"

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

/// Why the extras make no sense together; empty when they do.
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
    context.stats.sets.add();
    count(context, request,
          isDelete(opcode) ? PrefixStats::Event::Delete : PrefixStats::Event::Set);
    const auto extras = protocol::decodeVersionExtras(request.extras);
    if (const auto text = fault(extras, opcode); !text.empty()) {
        replyError(context, request, Status::kEinval, text);
        return After::Continue;
    }
    options::SelectedPlanted::stored();
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
    auto& bucket = context.server.bucket;
    replyMutation(context, request,
                  context.value == nullptr
                          ? bucket.storeVersion(vbid, request.keyText(), request.valueText(),
                                                version, context.now)
                          : bucket.storeVersion(vbid, request.keyText(), std::move(*context.value),
                                                version, context.now));
    return After::Continue;
}

}  // namespace

void addVersionOps(CommandTable& table) {
    table.add({Opcode::kSetWithMeta, Opcode::kSetWithMetaQ, Opcode::kAddWithMeta,
               Opcode::kAddWithMetaQ},
              {.handler = storeVersion, .needs = Needs::Write, .keepsValue = true});
    table.add({Opcode::kDeleteWithMeta, Opcode::kDeleteWithMetaQ}, {storeVersion, Needs::Write});
}

}  // namespace kv::server
