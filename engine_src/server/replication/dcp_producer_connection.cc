#include "server/replication/dcp_producer_connection.h"

#include "dcp/rollback.h"
#include "logging/log.h"
#include "server/replication/dcp_codec.h"
#include "types/parse_number.h"

namespace kv::server {

using protocol::Status;

namespace {

/// Wakes the connection. The waker belongs to the connection and is charged to no bucket: the
/// producer, which is destroyed with the bucket bound, may hold the last reference.
class Wake {
  public:
    explicit Wake(std::shared_ptr<Waker> waker) : waker_(std::move(waker)) {}
    Wake(const Wake&) = default;
    Wake& operator=(const Wake&) = delete;
    ~Wake() {
        const NonBucketGuard guard;
        waker_.reset();
    }
    void operator()() const { waker_->wake(); }

  private:
    std::shared_ptr<Waker> waker_;
};

constexpr uint32_t kMaxBuffer = 1U << 30U;
constexpr uint32_t kMaxNoopSeconds = 10'800;

}  // namespace

DcpProducerConnection::DcpProducerConnection(const Client& client, dcp::DcpNode& node,
                                             std::shared_ptr<Waker> waker, uint32_t openFlags)
    : node_(node), waker_(std::move(waker)) {
    format_.deleteTimes = (openFlags & protocol::dcp_open::kDeleteTimes) != 0;
    format_.expirations = false;
    const BucketMemoryGuard guard(node_.bucket().memory());
    producer_ = node_.makeProducer(client.name, client.user, Wake(waker_));
}

DcpProducerConnection::~DcpProducerConnection() {
    node_.retire(std::move(producer_));
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
        const auto bytes = parseNumber<uint32_t>(value, 0, kMaxBuffer);
        if (!bytes) {
            return Status::kEinval;
        }
        producer_->producer().flow().setBufferSize(*bytes);
        return Status::kSuccess;
    }
    if (key == "enable_noop") {
        bool on = false;
        const Status status = setFlag(on);
        if (status == Status::kSuccess) {
            noops_.enable(on, Clock::now());
        }
        return status;
    }
    if (key == "set_noop_interval") {
        const auto seconds = parseNumber<uint32_t>(value, 1, kMaxNoopSeconds);
        if (!seconds) {
            return Status::kEinval;
        }
        noops_.setInterval(std::chrono::seconds(*seconds));
        return Status::kSuccess;
    }
    if (key == "send_stream_end_on_client_close_stream") {
        return setFlag(endOnClose_);
    }
    if (key == "enable_expiry_opcode") {
        return setFlag(format_.expirations);
    }
    if (key == "max_marker_version") {
        // Markers have version 1, except for those with a purge seqno if the client accepts 2.2.
        format_.purges = value == "2.2";
        return value == "2.0" || value == "2.2" ? Status::kSuccess : Status::kEinval;
    }
    if (key == "set_priority") {
        // Accepted without effect: all connections have the same priority.
        return value == "high" || value == "medium" || value == "low" ? Status::kSuccess
                                                                      : Status::kEinval;
    }
    if (key == "supports_cursor_dropping") {
        // Accepted without effect: a stream whose cursor is dropped always continues from disk.
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
    if (!node_.mayStream(producer_->user())) {
        return Status::kEtmpfail;
    }
    const Seqno high = vbucket.highSeqno();
    auto log = vbucket.failoverLog().entries();
    const dcp::ResumePoint point{Seqno{request.start},
                                 VbUuid{request.uuid},
                                 {Seqno{request.snapshotStart}, Seqno{request.snapshotEnd}},
                                 (request.flags & flags::kStrictUuid) != 0};
    if (const auto back = dcp::rollbackPoint(point, log, high, vbucket.purgedSeqno())) {
        if (seen.state == VbState::Pending) {
            // This node has restarted, and another one may become active instead. So no client
            // gives up documents that this node has lost.
            return Status::kEtmpfail;
        }
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
    if (noops_.takeDue()) {
        appendDcpNoop(out);
    }
    BucketMemory& memory = node_.bucket().memory();
    const BucketMemoryGuard guard(memory);
    while (out.size() < limit) {
        const auto message = producer_->producer().step();
        if (!message) {
            return false;
        }
        appendDcpMessage(out, *message, memory);
    }
    return true;
}

bool DcpProducerConnection::onAnswer(const protocol::FrameView& answer) {
    if (answer.header.opcode == protocol::Opcode::kDcpNoop) {
        noops_.answered();
    }
    return true;
}

bool DcpProducerConnection::tick(Clock::time_point now, const Delivery& delivery) {
    if (noops_.tick(now, delivery)) {
        return true;
    }
    log::info("DCP {}: neither answered a no-op nor took data for {} s, disconnected",
              producer_->producer().name(), noops_.interval().count());
    return false;
}

}  // namespace kv::server
