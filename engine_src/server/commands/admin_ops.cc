// Commands that manage the server and its vBuckets.

#include <chrono>

#include "bucket/vbucket.h"
#include "logging/log.h"
#include "protocol/extras.h"
#include "server/commands/bucket_job.h"
#include "server/commands/command.h"
#include "server/replication/cluster_fence.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;

namespace {

After flush(CommandContext& context, const FrameView& request) {
    if (protocol::decodeU32(request.extras) != 0) {
        replyError(context, request, Status::kNotSupported, "Delayed flush is not supported");
        return After::Continue;
    }
    const NonBucketGuard nobody;
    const auto done = runBucketJob(context, [&bucket = context.server.bucket, now = context.now](
                                                    auto&) { return bucket.flushAll(now).status; });
    if (!done) {
        return After::AgainLater;
    }
    context.stats.flushes.add();
    if (done->status() != OpStatus::Ok) {
        replyRefusal(context, request, done->status());
    } else if (!isQuiet(request.header.opcode)) {
        reply(context, request, {});
    }
    return After::Continue;
}

/// Levels: 0 warnings, 1 information, 2 debug, 3 and above everything.
After verbosity(CommandContext& context, const FrameView& request) {
    const auto asked = protocol::decodeU32(request.extras);
    const auto level = asked == 0   ? log::Level::Warn
                       : asked == 1 ? log::Level::Info
                       : asked == 2 ? log::Level::Debug
                                    : log::Level::Trace;
    log::setLevel(level);
    reply(context, request, {});
    return After::Continue;
}

After getVBucket(CommandContext& context, const FrameView& request) {
    if (const VBucket* vbucket = vbucketOf(context, request, IfDead::Accept)) {
        replyValue(context, request, protocol::encodeU32(static_cast<uint32_t>(vbucket->state())));
    }
    return After::Continue;
}

constexpr std::chrono::seconds kBusyPatience{30};

/// Another request changes the vBucket. A rollback takes long, and this thread has other
/// connections to serve.
After waitForVBucket(CommandContext& context, const FrameView& request) {
    if (context.session.waits(std::chrono::steady_clock::now(), kBusyPatience)) {
        return After::AgainLater;
    }
    replyRefusal(context, request, OpStatus::TmpFail);
    return After::Continue;
}

/// Another node may become active next. If this one did not store that it is not active any more,
/// both would be active after its restart.
After storeVBucketState(CommandContext& context, const FrameView& request) {
    const NonBucketGuard nobody;
    const auto done = runBucketJob(context, [&bucket = context.server.bucket,
                                             vbid = Vbid{request.header.vbucket()}](auto&) {
        return bucket.storeState(vbid) ? OpStatus::Ok : OpStatus::TmpFail;
    });
    if (!done) {
        return After::AgainLater;
    }
    if (done->status() != OpStatus::Ok) {
        replyRefusal(context, request, done->status());
    } else {
        reply(context, request, {});
    }
    return After::Continue;
}

After setVBucket(CommandContext& context, const FrameView& request) {
    if (context.session.bucketJob() != nullptr) {
        return storeVBucketState(context, request);  // the state is in force already
    }
    // The state is one byte of extras; older clients send 4, in the extras or as the value.
    const auto& bytes = request.extras.empty() ? request.value : request.extras;
    if (bytes.size() != 1 && bytes.size() != 4) {
        replyError(context, request, Status::kEinval, "Invalid arguments: vBucket state");
        return After::Continue;
    }
    const uint32_t state = bytes.size() == 1 ? bytes[0] : loadBig<uint32_t>(bytes.data());
    if (state < static_cast<uint32_t>(VbState::Active) ||
        state > static_cast<uint32_t>(VbState::Dead)) {
        replyError(context, request, Status::kEinval, "Invalid arguments: vBucket state");
        return After::Continue;
    }
    auto& bucket = context.server.bucket;
    const Vbid vbid{request.header.vbucket()};
    const auto wanted = static_cast<VbState>(state);
    ClusterFence* const fence = context.server.fence;
    const auto status =
            fence != nullptr
                    ? fence->setVBucketState(vbid, wanted, context.now, Bucket::IfBusy::Return)
                    : bucket.setVBucketState(vbid, wanted, context.now, Bucket::IfBusy::Return);
    if (status == OpStatus::WouldBlock) {
        return waitForVBucket(context, request);
    }
    context.session.endWait();
    if (status != OpStatus::Ok) {
        replyRefusal(context, request, status);
    } else if (wanted != VbState::Active && bucket.type() == BucketType::Persistent) {
        return storeVBucketState(context, request);
    } else {
        reply(context, request, {});
    }
    return After::Continue;
}

/// The answer is sent when the work is done, even if the value asks not to wait.
After delVBucket(CommandContext& context, const FrameView& request) {
    const Vbid vbid{request.header.vbucket()};
    const NonBucketGuard nobody;
    const auto done =
            runBucketJob(context, [&bucket = context.server.bucket, vbid, now = context.now](
                                          auto&) { return bucket.deleteVBucket(vbid, now); });
    if (!done) {
        return After::AgainLater;
    }
    const OpStatus status = done->status();
    if (status == OpStatus::WouldBlock) {
        return waitForVBucket(context, request);
    }
    context.session.endWait();
    if (status == OpStatus::Invalid) {
        replyError(context, request, Status::kEinval, "Invalid arguments: the vBucket is not dead");
    } else if (status != OpStatus::Ok) {
        replyRefusal(context, request, status);
    } else {
        reply(context, request, {});
    }
    return After::Continue;
}

OpStatus publish(ServerContext& server, const std::shared_ptr<const ClusterConfig>& config) {
    const OpStatus status = server.fence != nullptr ? server.fence->publish(config, server.config)
                            : server.config.publish(config) ? OpStatus::Ok
                                                            : OpStatus::KeyExists;
    if (status == OpStatus::Ok && server.onClusterConfig) {
        server.onClusterConfig(config);
    }
    return status;
}

/// Publishes the map only; SET_VBUCKET sets the states of vBuckets.
After setClusterConfig(CommandContext& context, const FrameView& request) {
    auto& server = context.server;
    const NonBucketGuard nobody;
    const bool asked = context.session.bucketJob() != nullptr;
    // Parsing takes long, and publishing stores the revision on a disk that may be slow.
    const auto done = runBucketJob(
            context, [&server, json = asked ? std::string() : std::string(request.valueText())](
                             BucketJob::Result& result) {
                try {
                    return publish(server,
                                   std::make_shared<const ClusterConfig>(ClusterConfig::parse(
                                           json, server.bucket.vbucketCount())));
                } catch (const ClusterConfigError& error) {
                    result.why = error.what();
                    return OpStatus::Invalid;
                }
            });
    if (!done) {
        return After::AgainLater;
    }
    if (done->status() == OpStatus::Invalid) {
        replyError(context, request, Status::kEinval, done->result().why);
    } else if (done->status() == OpStatus::KeyExists) {
        replyError(context, request, Status::kKeyEexists, "The current config is as new or newer");
    } else if (done->status() != OpStatus::Ok) {
        replyRefusal(context, request, done->status());
    } else {
        reply(context, request, {});
    }
    return After::Continue;
}

After getFailoverLog(CommandContext& context, const FrameView& request) {
    if (const VBucket* vbucket = vbucketOf(context, request, IfDead::Accept)) {
        replyFailoverLog(context, request, vbucket->failoverLog().entries());
    }
    return After::Continue;
}

}  // namespace

void addAdminOps(CommandTable& table) {
    using enum Needs;
    table.add({Opcode::kFlush, Opcode::kFlushQ}, {timed<flush>, Manage});
    table.add({Opcode::kVerbosity}, {verbosity, Admin});
    table.add({Opcode::kGetVBucket}, {getVBucket, Read});
    table.add({Opcode::kSetVBucket}, {timed<setVBucket>, Manage});
    table.add({Opcode::kDelVBucket}, {timed<delVBucket>, Manage});
    table.add({Opcode::kSetClusterConfig}, {timed<setClusterConfig>, Admin});
    table.add({Opcode::kGetFailoverLog}, {timed<getFailoverLog>, Read});
}

}  // namespace kv::server
