#include "server/replicator.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "bucket/persistent_bucket.h"
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
constexpr size_t kReadBytes = 256U << 10U;
constexpr int kRetryMillis = 1000;
/// Without a message or a noop for this long the source is taken to be gone.
constexpr int kSilenceMillis = 60'000;
constexpr auto kDrainPeriod = std::chrono::milliseconds(100);
constexpr uint64_t kLastSeqno = ~uint64_t{0};

std::runtime_error systemError(const std::string& what) {
    return std::runtime_error(what + ": " + std::strerror(errno));
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

Replicator::Replicator(Bucket& bucket, Executor& executor, std::string host, uint16_t port)
    : bucket_(bucket),
      executor_(executor),
      host_(std::move(host)),
      port_(port),
      consumer_(bucket),
      drain_(executor.schedule("dcp_consumer", TaskPool::NonIO, kDrainPeriod,
                               [this] {
                                   const BucketMemoryGuard guard(bucket_.memory());
                                   return consumer_.processBuffered(OpTime::now())
                                                  ? TaskResult::after(std::chrono::milliseconds(1))
                                                  : TaskResult::after(kDrainPeriod);
                               })),
      stopFd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), "replicator");
}

Replicator::~Replicator() {
    stopping_ = true;
    const uint64_t one = 1;
    static_cast<void>(::write(stopFd_.get(), &one, sizeof one));
    thread_.join();
    executor_.cancel(drain_);
    const BucketMemoryGuard guard(bucket_.memory());
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        consumer_.closeStream(Vbid{vb});
    }
}

void Replicator::run() {
    while (!stopping_) {
        try {
            replicate();
        } catch (const std::exception& error) {
            if (!stopping_) {
                spdlog::warn("replication from {}:{}: {}; trying again", host_, port_,
                             error.what());
            }
        }
        connected_ = false;
        socket_ = Fd();
        input_.clear();
        output_.clear();
        pollfd stop{stopFd_.get(), POLLIN, 0};
        ::poll(&stop, 1, kRetryMillis);
    }
}

void Replicator::replicate() {
    connect();
    connected_ = true;
    ++connections_;
    openStreams();
    flush();
    while (waitFor(POLLIN, kSilenceMillis)) {
        readAndHandle();
        acknowledge();
        flush();
    }
}

void Replicator::connect() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error =
                ::getaddrinfo(host_.c_str(), std::to_string(port_).c_str(), &hints, &found)) {
        throw std::runtime_error(::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
    socket_ = Fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) {
        throw systemError("socket");
    }
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
        throw systemError("connect");
    }
    if (!waitFor(POLLOUT, kSilenceMillis)) {
        throw std::runtime_error("stopping");
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        errno = error;
        throw systemError("connect");
    }
}

void Replicator::openStreams() {
    const auto control = [this](std::string_view key, const std::string& value) {
        send({.opcode = Opcode::kDcpControl,
              .key = protocol::asBytes(key),
              .value = protocol::asBytes(value)});
    };
    const std::string name = "replication:" + bucket_.name();
    const auto flags = protocol::encodeDcpOpen(protocol::dcp_open::kProducer |
                                               protocol::dcp_open::kDeleteTimes);
    send({.opcode = Opcode::kDcpOpen, .extras = flags, .key = protocol::asBytes(name)});
    control("connection_buffer_size", std::to_string(kBufferBytes));
    control("set_noop_interval", "20");
    control("enable_noop", "true");
    control("enable_expiry_opcode", "true");
    for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
        if (bucket_.vbucket(Vbid{vb}).state() == VbState::Replica) {
            requestStream(Vbid{vb});
        }
    }
}

void Replicator::requestStream(Vbid vbid) {
    VBucket& vbucket = bucket_.vbucket(vbid);
    {
        // What an earlier connection's stream still holds back is asked for again.
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.closeStream(vbid);
    }
    const Seqno high = vbucket.highSeqno();
    SnapshotRange snapshot = vbucket.checkpoints().currentSnapshot();
    if (high < snapshot.start || snapshot.end < high) {
        snapshot = {high, high};
    }
    const auto extras =
            protocol::encodeDcpStreamRequest({.flags = 0,
                                              .start = high.get(),
                                              .end = kLastSeqno,
                                              .uuid = vbucket.failoverLog().uuid().get(),
                                              .snapshotStart = snapshot.start.get(),
                                              .snapshotEnd = snapshot.end.get()});
    const uint32_t opaque = vbid.get() + 1U;
    {
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.addStream(vbid, opaque);
    }
    send({.opcode = Opcode::kDcpStreamReq,
          .vbucketOrStatus = vbid.get(),
          .opaque = opaque,
          .extras = extras});
}

void Replicator::readAndHandle() {
    const size_t kept = input_.size();
    input_.resize(kept + kReadBytes);
    const ssize_t count = ::recv(socket_.get(), input_.data() + kept, kReadBytes, 0);
    if (count == 0) {
        throw std::runtime_error("the source closed the connection");
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
        throw systemError("recv");
    }
    input_.resize(kept + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    size_t used = 0;
    while (true) {
        const auto parsed = protocol::parseFrame(protocol::Bytes(input_).subspan(used));
        if (parsed.outcome == protocol::ParseOutcome::kBad) {
            throw std::runtime_error("a broken frame");
        }
        if (parsed.outcome == protocol::ParseOutcome::kNeedMore) {
            break;
        }
        used += parsed.frame.size();
        handle(parsed.frame);
    }
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(used));
}

void Replicator::handle(const FrameView& frame) {
    if (frame.header.magic == Magic::kClientResponse) {
        handleAnswer(frame);
    } else if (frame.header.opcode == Opcode::kDcpNoop) {
        send({.magic = Magic::kClientResponse,
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
    if (frame.header.opcode != Opcode::kDcpStreamReq) {
        if (status != Status::kSuccess) {
            throw std::runtime_error(fmt::format("{} was answered {}: {}",
                                                 protocol::toString(frame.header.opcode),
                                                 protocol::toString(status), frame.valueText()));
        }
        return;
    }
    const Vbid vbid{static_cast<uint16_t>(frame.header.opaque - 1)};
    if (frame.header.opaque == 0 || !bucket_.hasVBucket(vbid)) {
        throw std::runtime_error("an answer to no stream request");
    }
    if (status == Status::kRollback) {
        rollBack(vbid);
        requestStream(vbid);
        return;
    }
    if (status != Status::kSuccess || frame.value.size() % 16 != 0) {
        spdlog::warn("replication: vBucket {}: {}", vbid.get(), protocol::toString(status));
        const BucketMemoryGuard guard(bucket_.memory());
        consumer_.closeStream(vbid);
        return;
    }
    // From here on this copy's history is the source's.
    std::vector<FailoverEntry> log;
    for (size_t at = 0; at < frame.value.size(); at += 16) {
        log.push_back({VbUuid{protocol::loadBig<uint64_t>(frame.value.data() + at)},
                       Seqno{protocol::loadBig<uint64_t>(frame.value.data() + at + 8)}});
    }
    const BucketMemoryGuard guard(bucket_.memory());
    bucket_.vbucket(vbid).failoverLog().replace(std::vector<FailoverEntry>(log));
    bucket_.setVBucketState(vbid, VbState::Replica, OpTime::now());  // stores the log, too
    ++streams_;
}

void Replicator::handleMessage(const FrameView& frame) {
    const BucketMemoryGuard guard(bucket_.memory());
    const Vbid vbid{frame.header.vbucket()};
    const dcp::Applied applied = consumer_.receive(toMessage(frame), OpTime::now());
    if (applied == dcp::Applied::Refused && bucket_.vbucket(vbid).state() == VbState::Replica) {
        throw std::runtime_error(
                fmt::format("vBucket {}: a message that does not fit", vbid.get()));
    }
    if (applied == dcp::Applied::Ended) {
        spdlog::info("replication: vBucket {}: the source ended the stream", vbid.get());
    }
}

void Replicator::rollBack(Vbid vbid) {
    ++rollbacks_;
    spdlog::info("replication: vBucket {} has another history: it starts over", vbid.get());
    const auto now = OpTime::now();
    bucket_.setVBucketState(vbid, VbState::Dead, now);
    if (auto* persistent = dynamic_cast<PersistentBucket*>(&bucket_)) {
        if (!persistent->resetVBucket(vbid, now)) {
            throw std::runtime_error("the store refused to forget a vBucket");
        }
    } else {
        const BucketMemoryGuard guard(bucket_.memory());
        bucket_.vbucket(vbid).clear({}, now);
    }
    bucket_.setVBucketState(vbid, VbState::Replica, now);
}

void Replicator::acknowledge() {
    if (const size_t bytes = consumer_.takeAcknowledgement(kAcknowledgeBytes); bytes != 0) {
        const auto extras = protocol::encodeU32(static_cast<uint32_t>(bytes));
        send({.opcode = Opcode::kDcpBufferAck, .extras = extras});
    }
}

void Replicator::send(const protocol::FrameSpec& frame) {
    protocol::appendFrame(output_, frame);
}

void Replicator::flush() {
    size_t sent = 0;
    while (sent < output_.size()) {
        const ssize_t count =
                ::send(socket_.get(), output_.data() + sent, output_.size() - sent, MSG_NOSIGNAL);
        if (count >= 0) {
            sent += static_cast<size_t>(count);
        } else if (errno != EAGAIN && errno != EINTR) {
            throw systemError("send");
        } else if (!waitFor(POLLOUT, kSilenceMillis)) {
            break;
        }
    }
    output_.clear();
}

bool Replicator::waitFor(short events, int millis) {
    // In short steps: what the drain task applies meanwhile must be acknowledged, or the source
    // stays silent for ever.
    constexpr int kStepMillis = 100;
    for (int waited = 0; waited < millis; waited += kStepMillis) {
        pollfd fds[2] = {{socket_.get(), events, 0}, {stopFd_.get(), POLLIN, 0}};
        const int ready = ::poll(fds, 2, kStepMillis);
        if (stopping_) {
            return false;
        }
        if (ready > 0 && fds[0].revents != 0) {
            return true;
        }
        if (events == POLLIN) {
            acknowledge();
            if (!output_.empty()) {
                return true;
            }
        }
    }
    throw std::runtime_error("the source has been silent for too long");
}

KeyValues Replicator::stats() const {
    const auto consumer = consumer_.stats();
    return {{"source", fmt::format("{}:{}", host_, port_)},
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
