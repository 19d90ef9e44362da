#include "server/dcp_producer_connection.h"

#include <charconv>

#include "dcp/rollback.h"
#include "logging/log.h"
#include "server/dcp_frames.h"

namespace kv::server {

using protocol::Status;

namespace {

std::optional<uint32_t> parseNumber(std::string_view text, uint32_t least, uint32_t most) {
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < least ||
        number > most) {
        return std::nullopt;
    }
    return number;
}

constexpr uint32_t kMaxBuffer = 1U << 30U;
constexpr uint32_t kMaxNoopSeconds = 10'800;

}  // namespace

DcpProducerConnection::DcpProducerConnection(std::string_view name, dcp::DcpNode& node,
                                             std::shared_ptr<Waker> waker, uint32_t openFlags)
    : node_(node), waker_(std::move(waker)) {
    format_.deleteTimes = (openFlags & protocol::dcp_open::kDeleteTimes) != 0;
    format_.expirations = false;
    const BucketMemoryGuard guard(node_.bucket().memory());
    producer_ = node_.makeProducer(name, [waker = waker_] { waker->wake(); });
}

DcpProducerConnection::~DcpProducerConnection() {
    const BucketMemoryGuard guard(node_.bucket().memory());
    producer_.reset();
}

Status DcpProducerConnection::control(std::string_view key, std::string_view value) {
    const auto setFlag = [value](bool& flag) {
        if (value != "true" && value != "false") {
            return Status::kEinval;
        }
        flag = value == "true";
        return Status::kSuccess;
    };
    if (key == "connection_buffer_size") {
        const auto bytes = parseNumber(value, 0, kMaxBuffer);
        if (!bytes) {
            return Status::kEinval;
        }
        producer_->producer().flow().setBufferSize(*bytes);
        return Status::kSuccess;
    }
    if (key == "enable_noop") {
        noopSent_ = Clock::now();
        return setFlag(noops_);
    }
    if (key == "set_noop_interval") {
        const auto seconds = parseNumber(value, 1, kMaxNoopSeconds);
        if (!seconds) {
            return Status::kEinval;
        }
        noopInterval_ = std::chrono::seconds(*seconds);
        return Status::kSuccess;
    }
    if (key == "send_stream_end_on_client_close_stream") {
        return setFlag(endOnClose_);
    }
    if (key == "enable_expiry_opcode") {
        return setFlag(format_.expirations);
    }
    if (key == "max_marker_version") {
        // Version 1 where there is nothing that only 2.2 can say.
        format_.purges = value == "2.2";
        return value == "2.0" || value == "2.2" ? Status::kSuccess : Status::kEinval;
    }
    if (key == "set_priority") {
        // One priority: all connections take turns.
        return value == "high" || value == "medium" || value == "low" ? Status::kSuccess
                                                                      : Status::kEinval;
    }
    if (key == "supports_cursor_dropping") {
        // A slow stream's cursor may always be dropped: the stream goes on from disk by itself.
        return value == "true" || value == "false" ? Status::kSuccess : Status::kEinval;
    }
    return Status::kEinval;
}

DcpProducerConnection::StreamAnswer DcpProducerConnection::openStream(
        Vbid vbid, uint32_t opaque, const protocol::DcpStreamRequest& request) {
    namespace flags = protocol::dcp_stream;
    constexpr uint32_t kKnown =
            flags::kDiskOnly | flags::kToLatest | flags::kActiveOnly | flags::kStrictUuid;
    Bucket& bucket = node_.bucket();
    if (!bucket.hasVBucket(vbid)) {
        return Status::kNotMyVbucket;
    }
    VBucket& vbucket = bucket.vbucket(vbid);
    const dcp::BucketProducer::Seen seen(vbucket);
    if (seen.state == VbState::Dead ||
        ((request.flags & flags::kActiveOnly) != 0 && seen.state != VbState::Active)) {
        return Status::kNotMyVbucket;
    }
    if ((request.flags & ~kKnown) != 0) {
        return Status::kNotSupported;
    }
    if (request.start > request.end || request.snapshotStart > request.start ||
        request.start > request.snapshotEnd) {
        return Status::kErange;
    }
    if (producer_->producer().findStream(vbid)) {
        return Status::kKeyEexists;
    }
    const Seqno high = vbucket.highSeqno();
    auto log = vbucket.failoverLog().entries();
    const dcp::ResumePoint point{Seqno{request.start},
                                 VbUuid{request.uuid},
                                 {Seqno{request.snapshotStart}, Seqno{request.snapshotEnd}},
                                 (request.flags & flags::kStrictUuid) != 0};
    if (const auto back = dcp::rollbackPoint(point, log, high, vbucket.purgedSeqno())) {
        return *back;
    }
    const bool toLatest = (request.flags & (flags::kToLatest | flags::kDiskOnly)) != 0;
    const BucketMemoryGuard guard(bucket.memory());
    producer_->open({.vbid = vbid,
                     .opaque = opaque,
                     .start = Seqno{request.start},
                     .end = toLatest ? std::max(high, Seqno{request.start}) : Seqno{request.end},
                     .diskOnly = (request.flags & flags::kDiskOnly) != 0,
                     .format = format_,
                     .snapshot = dcp::partialSnapshot(point)},
                    seen);
    return log;
}

bool DcpProducerConnection::closeStream(Vbid vbid) {
    const BucketMemoryGuard guard(node_.bucket().memory());
    auto& producer = producer_->producer();
    if (endOnClose_) {
        return producer.endStream(vbid, dcp::EndStatus::Closed);
    }
    const auto stream = producer.removeStream(vbid);
    if (stream) {
        stream->end(dcp::EndStatus::Closed, true);
    }
    return stream != nullptr;
}

void DcpProducerConnection::acknowledged(uint32_t bytes) {
    producer_->producer().acknowledged(bytes);
}

bool DcpProducerConnection::produce(Output& out, size_t limit) {
    if (noopDue_) {
        noopDue_ = false;
        noopUnanswered_ = true;
        noopSent_ = Clock::now();
        appendDcpNoop(out);
    }
    const BucketMemoryGuard guard(node_.bucket().memory());
    while (out.size() < limit) {
        const auto message = producer_->producer().step();
        if (!message) {
            return false;
        }
        appendDcpMessage(out, *message);
    }
    return true;
}

bool DcpProducerConnection::onAnswer(const protocol::FrameView& answer) {
    if (answer.header.opcode == protocol::Opcode::kDcpNoop) {
        noopUnanswered_ = false;
    }
    return true;
}

bool DcpProducerConnection::tick(Clock::time_point now) {
    if (!noops_ || now - noopSent_ < noopInterval_) {
        return true;
    }
    if (noopUnanswered_) {
        log::info("DCP {}: no answer to a noop for {} s, disconnected",
                  producer_->producer().name(), noopInterval_.count());
        return false;
    }
    noopDue_ = true;
    return true;
}

}  // namespace kv::server
