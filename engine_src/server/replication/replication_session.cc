#include "server/replication/replication_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "logging/log.h"
#include "protocol/dcp.h"
#include "protocol/request_rules.h"
#include "server/replication/dcp_codec.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Magic;
using protocol::Opcode;
using protocol::Status;

namespace {

constexpr size_t kBufferBytes = 10U << 20U;
/// Acknowledge when a fifth of the producer's buffer has been applied, as other consumers do.
constexpr size_t kAcknowledgeBytes = kBufferBytes / 5;
/// Bytes that a source may send beyond what was acknowledged: the buffer, and the message that
/// fills it, which may be much larger. Beyond that the source does not follow the protocol.
constexpr size_t kMostOutstanding = 4 * kBufferBytes;
constexpr uint64_t kLastSeqno = ~uint64_t{0};
/// Opaque of the control message that an older source does not know.
constexpr uint32_t kMarkerControl = 1;
/// Opaque of the request for the seqnos of all vBuckets of the source; StartOvers uses 0 and 1.
constexpr uint32_t kSourceSeqnos = 2;

/// Returns the opaque of a stream: the vBucket and the number of the request.
uint32_t opaqueOf(Vbid vbid, uint16_t request) {
    return uint32_t{request} << 16U | vbid.get();
}

}  // namespace

ReplicationSession::ReplicationSession(Bucket& bucket, const ReplicationSource& source,
                                       FrameSink send, std::vector<bool> vbuckets)
    : bucket_(bucket),
      source_(source),
      send_(std::move(send)),
      vbuckets_(std::move(vbuckets)),
      login_(source_, send_),
      consumer_(bucket),
      requests_(bucket.vbucketCount()),
      terms_(bucket.vbucketCount()),
      requested_(bucket.vbucketCount()),
      startOvers_(bucket, send_),
      unreplicated_(bucket) {}

ReplicationSession::~ReplicationSession() {
    const BucketMemoryGuard guard(bucket_.memory());
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        consumer_.closeStream(Vbid{vb});
    }
}

void ReplicationSession::begin() {
    streaming_ = false;
    if (source_.user.empty()) {
        openStreams();
    } else {
        login_.begin();
    }
}

void ReplicationSession::upkeep() {
    acknowledge();
    requestMissing();
}

bool ReplicationSession::processBuffered() {
    const BucketMemoryGuard guard(bucket_.memory());
    return consumer_.processBuffered(OpTime::now());
}

void ReplicationSession::openStreams() {
    const auto control = [this](std::string_view key, const std::string& value,
                                uint32_t opaque = 0) {
        send_({.opcode = Opcode::kDcpControl,
               .opaque = opaque,
               .key = protocol::asBytes(key),
               .value = protocol::asBytes(value)});
    };
    const std::string name = "replication:" + bucket_.name();
    const auto flags = protocol::encodeDcpOpen(protocol::dcp_open::kProducer |
                                               protocol::dcp_open::kDeleteTimes);
    send_({.opcode = Opcode::kDcpOpen, .extras = flags, .key = protocol::asBytes(name)});
    control("connection_buffer_size", std::to_string(kBufferBytes));
    control("set_noop_interval", "20");
    control("enable_noop", "true");
    control("enable_expiry_opcode", "true");
    control("max_marker_version", "2.2", kMarkerControl);
    // Messages of an earlier connection that are held back will be sent again.
    const BucketMemoryGuard guard(bucket_.memory());
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        consumer_.closeStream(Vbid{vb});
    }
    consumer_.forgetAcknowledgement();
    outstanding_ = 0;
    startOvers_.clear();
    streaming_ = true;
    nextRequests_ = {};
    if (vbuckets_.empty()) {
        send_({.opcode = Opcode::kGetAllVBSeqnos, .opaque = kSourceSeqnos});
    }
    requestMissing();
}

void ReplicationSession::requestMissing() {
    const auto now = std::chrono::steady_clock::now();
    if (!streaming_ || now < nextRequests_) {
        return;
    }
    nextRequests_ = now + kRetryPause;
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        const Vbid vbid{vb};
        if (!wanted(vbid) || !isSameTerm(vbid)) {
            unreplicated_.remove(vbid);
            if (consumer_.hasStream(vbid)) {
                closeStream(vbid);
            }
        }
        if (wanted(vbid) && !consumer_.hasStream(vbid)) {
            requestStream(vbid);
        }
    }
}

bool ReplicationSession::isSameTerm(Vbid vbid) const {
    return bucket_.vbucket(vbid).term() == terms_[vbid.get()];
}

bool ReplicationSession::wanted(Vbid vbid) const {
    return (vbuckets_.empty() || vbuckets_[vbid.get()]) &&
           bucket_.vbucket(vbid).state() == VbState::Replica;
}

void ReplicationSession::closeStream(Vbid vbid) {
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.closeStream(vbid);
    }
    send_({.opcode = Opcode::kDcpCloseStream,
           .vbucketOrStatus = vbid.get(),
           .opaque = opaqueOf(vbid, requests_[vbid.get()])});
}

void ReplicationSession::requestStream(Vbid vbid) {
    const uint32_t opaque = opaqueOf(vbid, ++requests_[vbid.get()]);
    requested_[vbid.get()] = std::chrono::steady_clock::now();
    VBucket& vbucket = bucket_.vbucket(vbid);
    terms_[vbid.get()] = vbucket.term();  // first: if it changes below, the stream is outdated
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.addStream(vbid, opaque);
    }
    const Seqno high = vbucket.highSeqno();
    SnapshotRange snapshot = vbucket.checkpoints().currentSnapshot();
    if (snapshot.start <= high && high < snapshot.end && snapshot.start != Seqno{}) {
        // If a snapshot is incomplete, its beginning is of no use without the rest either.
        snapshot.start = Seqno{snapshot.start.get() - 1};
    } else {
        snapshot = {high, high};
    }
    const auto extras = protocol::encodeDcpStreamRequest(
            {.flags = 0,
             .start = high.get(),
             .end = kLastSeqno,
             .uuid = vbucket.failoverLog().uuidOf(snapshot.end).get(),
             .snapshotStart = snapshot.start.get(),
             .snapshotEnd = snapshot.end.get()});
    send_({.opcode = Opcode::kDcpStreamReq,
           .vbucketOrStatus = vbid.get(),
           .opaque = opaque,
           .extras = extras});
}

void ReplicationSession::handle(const FrameView& frame) {
    const bool answers = frame.header.magic == Magic::kClientResponse;
    if (!streaming_ && !(answers && ReplicationLogin::isAnswer(frame.header.opcode))) {
        // The streams of the last connection are still there, and their opaques can be guessed.
        throw std::runtime_error("a message before it has proved the password");
    }
    if (answers) {
        handleAnswer(frame);
    } else if (frame.header.opcode == Opcode::kDcpNoop) {
        send_({.magic = Magic::kClientResponse,
               .opcode = Opcode::kDcpNoop,
               .opaque = frame.header.opaque});
    } else {
        if (protocol::validate(frame) != protocol::Violation::None ||
            !bucket_.hasVBucket(Vbid{frame.header.vbucket()})) {
            throw std::runtime_error("an unexpected message");
        }
        handleMessage(frame);
    }
}

void ReplicationSession::handleAnswer(const FrameView& frame) {
    if (ReplicationLogin::isAnswer(frame.header.opcode)) {
        if (login_.handle(frame)) {
            openStreams();
        }
        return;
    }
    if (frame.header.opcode == Opcode::kDcpCloseStream) {
        return;  // an error only means that the source had ended the stream already
    }
    if (frame.header.opcode == Opcode::kDcpGetFailoverLog) {
        startOvers_.handleFailoverLog(frame);
        return;
    }
    if (frame.header.opcode == Opcode::kStat) {
        startOvers_.handleStat(frame);
        return;
    }
    if (frame.header.opcode == Opcode::kGetAllVBSeqnos) {
        if (frame.header.opaque == kSourceSeqnos) {
            checkVBuckets(frame);
            return;
        }
        for (const auto& decision : startOvers_.handleSeqnos(frame)) {
            carryOut(decision);
        }
        return;
    }
    if (frame.header.opcode != Opcode::kDcpStreamReq) {
        const Status status = frame.header.status();
        if (status == Status::kEinval && frame.header.opcode == Opcode::kDcpControl &&
            frame.header.opaque == kMarkerControl) {
            log::warn("replication: {}:{} does not say which deletions it has purged", source_.host,
                      source_.port);
        } else if (status != Status::kSuccess) {
            throw std::runtime_error(fmt::format("{} was answered {}: {}",
                                                 protocol::toString(frame.header.opcode),
                                                 protocol::toString(status), frame.valueText()));
        }
        return;
    }
    handleStreamAnswer(frame);
}

void ReplicationSession::checkVBuckets(const FrameView& answer) const {
    const auto seqnos = decodeSeqnos(answer);
    if (!seqnos.empty() && seqnos.rbegin()->first >= bucket_.vbucketCount()) {
        throw std::runtime_error(
                fmt::format("the source has vBucket {}, but this node has only {}: start it with "
                            "the --vbuckets of the source",
                            seqnos.rbegin()->first, bucket_.vbucketCount()));
    }
}

void ReplicationSession::handleStreamAnswer(const FrameView& frame) {
    const Status status = frame.header.status();
    const Vbid vbid{static_cast<uint16_t>(frame.header.opaque)};
    if (!bucket_.hasVBucket(vbid)) {
        throw std::runtime_error("an answer without a stream request");
    }
    if (frame.header.opaque != opaqueOf(vbid, requests_[vbid.get()]) ||
        !consumer_.hasStream(vbid)) {
        return;  // closed in the meantime, and the source was notified
    }
    if (status == Status::kRollback) {
        if (frame.value.size() != sizeof(uint64_t)) {
            throw std::runtime_error("a rollback without a seqno");
        }
        considerRollBack(vbid, Seqno{loadBig<uint64_t>(frame.value.data())});
        return;
    }
    if (status != Status::kSuccess) {
        endRefused(vbid, status);
        return;
    }
    // From here on the history of this copy is that of the source.
    bool adopted = false;
    {
        const BucketMemoryGuard guard(bucket_.memory());
        adopted = bucket_.adoptHistory(vbid, terms_[vbid.get()], toFailoverLog(frame.value),
                                       OpTime::now());
    }
    unreplicated_.remove(vbid);
    if (!adopted) {
        closeStream(vbid);  // it was promoted or emptied in the meantime
        return;
    }
    ++streams_;
}

void ReplicationSession::endRefused(Vbid vbid, Status why) {
    if (unreplicated_.addRefusal(vbid, terms_[vbid.get()], why)) {
        log::warn("replication: vBucket {}: {}:{} refuses the stream: {}", vbid.get(), source_.host,
                  source_.port, protocol::toString(why));
    }
    closeStream(vbid);
}

void ReplicationSession::handleMessage(const FrameView& frame) {
    const Vbid vbid{frame.header.vbucket()};
    uint32_t detail = 0;
    dcp::Applied applied{};
    {
        // The document is charged to the bucket.
        const BucketMemoryGuard guard(bucket_.memory());
        dcp::Message message = toMessage(frame);
        outstanding_ += message.wireSize();
        if (outstanding_ > kMostOutstanding) {
            throw std::runtime_error("it sends more than was acknowledged");
        }
        detail = message.detail;
        applied = consumer_.receive(std::move(message), OpTime::now());
    }
    if (applied == dcp::Applied::Ended) {
        handleEnd(vbid, dcp::EndStatus{detail});
    } else if (applied == dcp::Applied::Refused) {
        if (bucket_.vbucket(vbid).state() == VbState::Replica && isSameTerm(vbid)) {
            throw std::runtime_error(
                    fmt::format("vBucket {}: a message that does not fit", vbid.get()));
        }
        closeStream(vbid);
    }
}

void ReplicationSession::handleEnd(Vbid vbid, dcp::EndStatus reason) {
    log::info("replication: vBucket {}: the source ended the stream", vbid.get());
    const auto life = std::chrono::steady_clock::now() - requested_[vbid.get()];
    if (reason == dcp::EndStatus::StateChanged && life >= kShortLife && wanted(vbid)) {
        requestStream(vbid);
    }
}

void ReplicationSession::considerRollBack(Vbid vbid, Seqno seqno) {
    if (seqno >= bucket_.vbucket(vbid).highSeqno()) {
        endRefused(vbid, Status::kRollback);  // it would ask for the same again, without end
        return;
    }
    if (!startOvers_.isNeeded(vbid, seqno)) {
        rollBack(vbid, seqno);
        return;
    }
    if (unreplicated_.isKeptForGood(vbid)) {
        closeStream(vbid);  // even if the source has more now, its documents are of another history
        return;
    }
    startOvers_.add(vbid, opaqueOf(vbid, requests_[vbid.get()]), seqno);
}

void ReplicationSession::carryOut(const StartOvers::Decision& decision) {
    const Vbid vbid = decision.vbid;
    if (decision.opaque != opaqueOf(vbid, requests_[vbid.get()]) || !wanted(vbid) ||
        !isSameTerm(vbid)) {
        return;  // the stream was closed or requested again, or is about to be
    }
    if (!decision.keepCopy) {
        rollBack(vbid, decision.seqno);
        return;
    }
    if (decision.sourceActive) {
        bucket_.refuseHistory(vbid, terms_[vbid.get()], decision.history, OpTime::now());
    }
    if (unreplicated_.addKeptCopy(vbid, terms_[vbid.get()],
                                  {decision.sourceHigh, decision.sourceActive})) {
        const VBucket& vbucket = bucket_.vbucket(vbid);
        log::error(
                "replication: vBucket {}: {}:{} has another history and ends at seqno {}: this "
                "copy, {} documents up to seqno {}, is kept and not replicated. Make it active, or "
                "discard it with kvctl discard-copies",
                vbid.get(), source_.host, source_.port, decision.sourceHigh.get(),
                documentsIn(vbucket), vbucket.highSeqno().get());
    }
    closeStream(vbid);
}

void ReplicationSession::rollBack(Vbid vbid, Seqno seqno) {
    const uint64_t before = documentsIn(bucket_.vbucket(vbid));
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.closeStream(vbid);
    }
    switch (bucket_.rollBackReplica(vbid, terms_[vbid.get()], seqno, OpTime::now())) {
        case Bucket::RollBack::NotReplica:
            // It was promoted during the request and keeps its data, or it was emptied.
            return;
        case Bucket::RollBack::StoreFailed:
            throw std::runtime_error("the store refused to roll a vBucket back");
        case Bucket::RollBack::Done:
            break;
    }
    ++rollbacks_;
    const uint64_t after = documentsIn(bucket_.vbucket(vbid));
    log::warn("replication: vBucket {} has another history: back to seqno {}, without {} documents",
              vbid.get(), bucket_.vbucket(vbid).highSeqno().get(),
              before - std::min(before, after));
    unreplicated_.remove(vbid);
    requestStream(vbid);
}

void ReplicationSession::acknowledge() {
    if (const size_t bytes = consumer_.takeAcknowledgement(kAcknowledgeBytes); bytes != 0) {
        outstanding_ -= std::min(outstanding_, bytes);
        const auto extras = protocol::encodeU32(static_cast<uint32_t>(bytes));
        send_({.opcode = Opcode::kDcpBufferAck, .extras = extras});
    }
}

KeyValues ReplicationSession::stats() const {
    const auto consumer = consumer_.stats();
    KeyValues stats{{"streams_opened", std::to_string(streams_)},
                    {"rollbacks", std::to_string(rollbacks_)},
                    {"messages", std::to_string(consumer.messages)},
                    {"bytes", std::to_string(consumer.bytes)},
                    {"held_back", std::to_string(consumer.heldBack)},
                    {"refused", std::to_string(consumer.refused)}};
    unreplicated_.addStats(stats);
    return stats;
}

}  // namespace kv::server
