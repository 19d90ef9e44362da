#include "server/replicator.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <stdexcept>

#include "protocol/dcp.h"
#include "protocol/request_rules.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Magic;
using protocol::Opcode;
using protocol::Status;

namespace {

constexpr size_t kBufferBytes = 10U << 20U;
/// Acknowledged when a fifth of the producer's buffer has been applied, as other consumers do.
constexpr size_t kAcknowledgeBytes = kBufferBytes / 5;
constexpr auto kRetryPause = std::chrono::seconds(1);
constexpr auto kDrainPeriod = std::chrono::milliseconds(100);
constexpr uint64_t kLastSeqno = ~uint64_t{0};

/// A stream's opaque: which request of which vBucket.
uint32_t opaqueOf(Vbid vbid, uint16_t request) {
    return uint32_t{request} << 16U | vbid.get();
}

ItemPtr toItem(const FrameView& frame, ItemOp op) {
    const auto document = op == ItemOp::Mutation ? protocol::decodeDcpMutation(frame.extras)
                                                 : protocol::decodeDcpDeletion(frame.extras);
    const ItemMeta meta{.cas = Cas{frame.header.cas},
                        .seqno = Seqno{document.seqno},
                        .revSeqno = document.revSeqno,
                        .flags = document.flags,
                        .exptime = op == ItemOp::Mutation ? document.expiry : document.deleteTime,
                        .datatype = frame.header.datatype};
    return Item::create(Vbid{frame.header.vbucket()}, op, frame.keyText(), meta,
                        op == ItemOp::Mutation ? Blob::create(frame.valueText()) : BlobPtr{});
}

dcp::Message toMessage(const FrameView& frame) {
    const Vbid vbid{frame.header.vbucket()};
    const uint32_t opaque = frame.header.opaque;
    switch (frame.header.opcode) {
        case Opcode::kDcpSnapshotMarker: {
            const auto marker = protocol::decodeDcpSnapshotMarker(frame.extras);
            return dcp::Message::marker(vbid, opaque, Seqno{marker.start}, Seqno{marker.end},
                                        marker.flags);
        }
        case Opcode::kDcpMutation:
            return dcp::Message::document(opaque, toItem(frame, ItemOp::Mutation));
        case Opcode::kDcpDeletion:
            return dcp::Message::document(
                    opaque, toItem(frame, ItemOp::Deletion),
                    {.deleteTimes = frame.extras.size() == 21, .expirations = true});
        case Opcode::kDcpExpiration:
            return dcp::Message::document(opaque, toItem(frame, ItemOp::Expiration));
        case Opcode::kDcpStreamEnd:
            return dcp::Message::streamEnd(
                    vbid, opaque, static_cast<dcp::EndStatus>(protocol::decodeU32(frame.extras)));
        default:
            throw std::runtime_error("unexpected request " +
                                     std::string(protocol::toString(frame.header.opcode)));
    }
}

}  // namespace

Replicator::Replicator(Bucket& bucket, Executor& executor, ReplicationSource source,
                       std::vector<bool> vbuckets)
    : bucket_(bucket),
      executor_(executor),
      source_(std::move(source)),
      vbuckets_(std::move(vbuckets)),
      consumer_(bucket),
      drain_(executor.schedule("dcp_consumer", TaskPool::NonIO, kDrainPeriod,
                               [this] {
                                   const BucketMemoryGuard guard(bucket_.memory());
                                   return consumer_.processBuffered(OpTime::now())
                                                  ? TaskResult::after(std::chrono::milliseconds(1))
                                                  : TaskResult::after(kDrainPeriod);
                               })),
      requests_(bucket.vbucketCount()),
      refused_(bucket.vbucketCount()),
      thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), "replicator");
}

Replicator::~Replicator() {
    link_.stop();
    thread_.join();
    executor_.cancel(drain_);
    const BucketMemoryGuard guard(bucket_.memory());
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        consumer_.closeStream(Vbid{vb});
    }
}

void Replicator::run() {
    while (!link_.stopping()) {
        try {
            replicate();
        } catch (const std::exception& error) {
            if (!link_.stopping()) {
                spdlog::warn("replication from {}:{}: {}; trying again", source_.host, source_.port,
                             error.what());
            }
        }
        connected_ = false;
        link_.close();
        link_.sleep(kRetryPause);
    }
}

void Replicator::replicate() {
    link_.connect(source_.host, source_.port);
    connected_ = true;
    streaming_ = false;
    ++connections_;
    if (source_.user.empty()) {
        openStreams();
    } else {
        link_.send({.opcode = Opcode::kSaslListMechs});
    }
    link_.flush();
    // What the drain task applies while nothing comes must be acknowledged, or the source stays
    // silent for ever.
    const auto upkeep = [this] {
        acknowledge();
        requestMissing();
    };
    while (link_.waitForInput(upkeep)) {
        link_.readFrames([this](const FrameView& frame) { handle(frame); });
        upkeep();
        link_.flush();
    }
}

void Replicator::handleLogin(const FrameView& answer) {
    const Status status = answer.header.status();
    const auto step = [this](Opcode opcode, std::string_view mechanism, const std::string& value) {
        link_.send({.opcode = opcode,
                    .key = protocol::asBytes(mechanism),
                    .value = protocol::asBytes(value)});
    };
    if (answer.header.opcode == Opcode::kSaslListMechs && status == Status::kSuccess) {
        mechanism_ = auth::bestMechanism(answer.valueText());
        login_.emplace(mechanism_, source_.user, source_.password);
        step(Opcode::kSaslAuth, mechanism_, login_->firstMessage());
    } else if (answer.header.opcode == Opcode::kSaslAuth && login_ &&
               status == Status::kAuthContinue) {
        step(Opcode::kSaslStep, mechanism_, login_->finalMessage(answer.valueText()));
    } else if (answer.header.opcode == Opcode::kSaslStep && login_ && status == Status::kSuccess) {
        login_->verify(answer.valueText());
        login_.reset();
        openStreams();
    } else if (answer.header.opcode == Opcode::kSaslAuth && status == Status::kSuccess) {
        throw std::runtime_error("the source has no users: follow it without a login");
    } else {
        throw std::runtime_error(fmt::format("the login as {} was answered {}", source_.user,
                                             protocol::toString(status)));
    }
}

void Replicator::openStreams() {
    const auto control = [this](std::string_view key, const std::string& value) {
        link_.send({.opcode = Opcode::kDcpControl,
                    .key = protocol::asBytes(key),
                    .value = protocol::asBytes(value)});
    };
    const std::string name = "replication:" + bucket_.name();
    const auto flags = protocol::encodeDcpOpen(protocol::dcp_open::kProducer |
                                               protocol::dcp_open::kDeleteTimes);
    link_.send({.opcode = Opcode::kDcpOpen, .extras = flags, .key = protocol::asBytes(name)});
    control("connection_buffer_size", std::to_string(kBufferBytes));
    control("set_noop_interval", "20");
    control("enable_noop", "true");
    control("enable_expiry_opcode", "true");
    // What an earlier connection's streams still hold back is asked for again.
    const BucketMemoryGuard guard(bucket_.memory());
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        consumer_.closeStream(Vbid{vb});
    }
    consumer_.forgetAcknowledgement();
    streaming_ = true;
    nextRequests_ = {};
    requestMissing();
}

void Replicator::requestMissing() {
    const auto now = std::chrono::steady_clock::now();
    if (!streaming_ || now < nextRequests_) {
        return;
    }
    nextRequests_ = now + kRetryPause;
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        const bool replica = (vbuckets_.empty() || vbuckets_[vb]) &&
                             bucket_.vbucket(Vbid{vb}).state() == VbState::Replica;
        if (replica != consumer_.hasStream(Vbid{vb})) {
            replica ? requestStream(Vbid{vb}) : closeStream(Vbid{vb});
        }
    }
}

void Replicator::closeStream(Vbid vbid) {
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.closeStream(vbid);
    }
    link_.send({.opcode = Opcode::kDcpCloseStream,
                .vbucketOrStatus = vbid.get(),
                .opaque = opaqueOf(vbid, requests_[vbid.get()])});
}

void Replicator::requestStream(Vbid vbid) {
    VBucket& vbucket = bucket_.vbucket(vbid);
    const Seqno high = vbucket.highSeqno();
    SnapshotRange snapshot = vbucket.checkpoints().currentSnapshot();
    if (snapshot.start <= high && high < snapshot.end && snapshot.start != Seqno{}) {
        // Of a snapshot that is here in part not even the beginning is of use without the rest.
        snapshot.start = Seqno{snapshot.start.get() - 1};
    } else {
        snapshot = {high, high};
    }
    const auto extras =
            protocol::encodeDcpStreamRequest({.flags = 0,
                                              .start = high.get(),
                                              .end = kLastSeqno,
                                              .uuid = vbucket.failoverLog().uuid().get(),
                                              .snapshotStart = snapshot.start.get(),
                                              .snapshotEnd = snapshot.end.get()});
    const uint32_t opaque = opaqueOf(vbid, ++requests_[vbid.get()]);
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.addStream(vbid, opaque);
    }
    link_.send({.opcode = Opcode::kDcpStreamReq,
                .vbucketOrStatus = vbid.get(),
                .opaque = opaque,
                .extras = extras});
}

void Replicator::handle(const FrameView& frame) {
    if (frame.header.magic == Magic::kClientResponse) {
        handleAnswer(frame);
    } else if (frame.header.opcode == Opcode::kDcpNoop) {
        link_.send({.magic = Magic::kClientResponse,
                    .opcode = Opcode::kDcpNoop,
                    .opaque = frame.header.opaque});
    } else {
        if (protocol::validate(frame) != protocol::Violation::None ||
            !bucket_.hasVBucket(Vbid{frame.header.vbucket()})) {
            throw std::runtime_error("a message that cannot be");
        }
        handleMessage(frame);
    }
}

void Replicator::handleAnswer(const FrameView& frame) {
    const Status status = frame.header.status();
    if (const auto opcode = frame.header.opcode; opcode == Opcode::kSaslListMechs ||
                                                 opcode == Opcode::kSaslAuth ||
                                                 opcode == Opcode::kSaslStep) {
        handleLogin(frame);
        return;
    }
    if (frame.header.opcode == Opcode::kDcpCloseStream) {
        return;  // a source that has ended the stream itself knows of none
    }
    if (frame.header.opcode != Opcode::kDcpStreamReq) {
        if (status != Status::kSuccess) {
            throw std::runtime_error(fmt::format("{} was answered {}: {}",
                                                 protocol::toString(frame.header.opcode),
                                                 protocol::toString(status), frame.valueText()));
        }
        return;
    }
    const Vbid vbid{static_cast<uint16_t>(frame.header.opaque)};
    if (!bucket_.hasVBucket(vbid)) {
        throw std::runtime_error("an answer to no stream request");
    }
    if (frame.header.opaque != opaqueOf(vbid, requests_[vbid.get()]) ||
        !consumer_.hasStream(vbid)) {
        return;  // closed meanwhile, and the source was told
    }
    if (status == Status::kRollback) {
        if (frame.value.size() != sizeof(uint64_t)) {
            throw std::runtime_error("a rollback to nowhere");
        }
        rollBack(vbid, Seqno{protocol::loadBig<uint64_t>(frame.value.data())});
        return;
    }
    if (status != Status::kSuccess || frame.value.size() % 16 != 0) {
        if (!refused_[vbid.get()]) {
            spdlog::warn("replication: vBucket {}: {}", vbid.get(), protocol::toString(status));
        }
        refused_[vbid.get()] = true;
        closeStream(vbid);
        return;
    }
    refused_[vbid.get()] = false;
    // From here on this copy's history is the source's.
    std::vector<FailoverEntry> log;
    for (size_t at = 0; at < frame.value.size(); at += 16) {
        log.push_back({VbUuid{protocol::loadBig<uint64_t>(frame.value.data() + at)},
                       Seqno{protocol::loadBig<uint64_t>(frame.value.data() + at + 8)}});
    }
    bool adopted = false;
    {
        const BucketMemoryGuard guard(bucket_.memory());
        adopted = bucket_.adoptHistory(vbid, std::vector<FailoverEntry>(log), OpTime::now());
    }
    if (!adopted) {
        closeStream(vbid);  // it was promoted meanwhile: its history is its own
        return;
    }
    ++streams_;
}

void Replicator::handleMessage(const FrameView& frame) {
    const Vbid vbid{frame.header.vbucket()};
    dcp::Applied applied{};
    {
        const BucketMemoryGuard guard(bucket_.memory());
        applied = consumer_.receive(toMessage(frame), OpTime::now());
    }
    if (applied == dcp::Applied::Ended) {
        spdlog::info("replication: vBucket {}: the source ended the stream", vbid.get());
    } else if (applied == dcp::Applied::Refused) {
        if (bucket_.vbucket(vbid).state() == VbState::Replica) {
            throw std::runtime_error(
                    fmt::format("vBucket {}: a message that does not fit", vbid.get()));
        }
        closeStream(vbid);
    }
}

void Replicator::rollBack(Vbid vbid, Seqno seqno) {
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.closeStream(vbid);
    }
    switch (bucket_.rollBackReplica(vbid, seqno, OpTime::now())) {
        case Bucket::RollBack::NotReplica:
            return;  // promoted while the request was under way: what it has is the truth now
        case Bucket::RollBack::StoreFailed:
            throw std::runtime_error("the store refused to roll a vBucket back");
        case Bucket::RollBack::Done:
            break;
    }
    ++rollbacks_;
    spdlog::info("replication: vBucket {} has another history: back to seqno {}", vbid.get(),
                 bucket_.vbucket(vbid).highSeqno().get());
    requestStream(vbid);
}

void Replicator::acknowledge() {
    if (const size_t bytes = consumer_.takeAcknowledgement(kAcknowledgeBytes); bytes != 0) {
        const auto extras = protocol::encodeU32(static_cast<uint32_t>(bytes));
        link_.send({.opcode = Opcode::kDcpBufferAck, .extras = extras});
    }
}

KeyValues Replicator::stats() const {
    const auto consumer = consumer_.stats();
    return {{"source", fmt::format("{}:{}", source_.host, source_.port)},
            {"connected", connected_ ? "true" : "false"},
            {"connections", std::to_string(connections_)},
            {"streams_opened", std::to_string(streams_)},
            {"rollbacks", std::to_string(rollbacks_)},
            {"messages", std::to_string(consumer.messages)},
            {"bytes", std::to_string(consumer.bytes)},
            {"held_back", std::to_string(consumer.heldBack)},
            {"refused", std::to_string(consumer.refused)}};
}

}  // namespace kv::server
