// The fixture of the tests of a ReplicationSession: a bucket with one replica vBucket, and a
// session whose source, without users, is played by the test.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "protocol/dcp.h"
#include "server/replication/replication_session.h"

namespace kv::server {

class ReplicationSessionTest : public testing::Test {
  protected:
    using FrameSpec = protocol::FrameSpec;
    using Magic = protocol::Magic;
    using Opcode = protocol::Opcode;
    static constexpr Vbid kReplicaVb{0};
    /// Opaque of the request for the vBuckets of the source; lower ones are about its history.
    static constexpr uint32_t kVBucketQuestion = 2;

    ReplicationSessionTest() {
        bucket_->setVBucketState(kReplicaVb, VbState::Replica, OpTime::now());
        session_.begin();
    }

    static std::unique_ptr<Bucket> makeBucket() {
        BucketConfig config;
        config.vbuckets = 1;
        return Bucket::createEphemeral(config);
    }
    /// Sends a frame from the source.
    void send(const FrameSpec& spec) {
        std::vector<uint8_t> bytes;
        protocol::appendFrame(bytes, spec);
        session_.handle(protocol::parseFrame(bytes).frame);
        session_.upkeep();
    }
    using History = std::vector<FailoverEntry>;
    static std::vector<uint8_t> encode(const History& history) {
        std::vector<uint8_t> log;
        for (const auto& entry : history) {
            const auto bytes = protocol::encodeMutationToken(entry.uuid.get(), entry.seqno.get());
            log.insert(log.end(), bytes.begin(), bytes.end());
        }
        return log;
    }
    /// Accepts the last stream request, with this history.
    void accept(const History& history = {{VbUuid{9}, Seqno{0}}}) {
        const auto log = encode(history);
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .opaque = opaques_.back(),
              .value = log});
    }
    /// Refuses the last stream request with this status.
    void refuse(protocol::Status status) {
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .vbucketOrStatus = protocol::raw(status),
              .opaque = opaques_.back()});
    }
    void mutate(uint64_t seqno, std::string_view value = "value") {
        const auto extras = protocol::encodeDcpMutation({.seqno = seqno, .revSeqno = 1});
        const auto key = std::to_string(seqno);
        send({.opcode = Opcode::kDcpMutation,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .cas = seqno,
              .extras = extras,
              .key = protocol::asBytes(key),
              .value = protocol::asBytes(value)});
    }
    /// Runs the upkeep until another stream is requested. Returns false if none is within a minute.
    bool requestsAgain() {
        const auto requests = opaques_.size();
        for (auto patience = std::chrono::minutes(1) / kStep; opaques_.size() == requests;
             --patience) {
            if (patience == 0) {
                return false;
            }
            std::this_thread::sleep_for(kStep);
            session_.upkeep();
        }
        return true;
    }
    std::string stat(const std::string& name) const {
        for (const auto& [key, value] : session_.stats()) {
            if (key == name) {
                return value;
            }
        }
        return "none";
    }
    void snapshot(uint64_t start, uint64_t end) {
        const auto extras = protocol::encodeDcpSnapshotMarker({start, end, dcp::kMarkerMemory});
        send({.opcode = Opcode::kDcpSnapshotMarker,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .extras = extras});
    }
    void deletion(uint64_t seqno) {
        const auto extras = protocol::encodeDcpDeletion({.seqno = seqno, .revSeqno = 1});
        const auto key = std::to_string(seqno);
        send({.opcode = Opcode::kDcpDeletion,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .cas = seqno,
              .extras = extras,
              .key = protocol::asBytes(key)});
    }
    /// Returns the stream request of the next connection.
    protocol::DcpStreamRequest requestAgain() {
        session_.begin();
        return asked_;
    }
    void end(dcp::EndStatus reason = dcp::EndStatus::StateChanged) {
        const auto extras = protocol::encodeU32(static_cast<uint32_t>(reason));
        send({.opcode = Opcode::kDcpStreamEnd,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .extras = extras});
    }

    static constexpr std::chrono::milliseconds kStep{10};

    const std::chrono::steady_clock::time_point begun_{std::chrono::steady_clock::now()};
    const std::unique_ptr<Bucket> bucket_{makeBucket()};
    const ReplicationSource source_{.host = "source", .port = 11210, .user = "", .password = ""};
    /// Value and opaque of each control message.
    std::map<std::string, std::pair<std::string, uint32_t>> controls_;
    std::vector<uint32_t> opaques_;       ///< of the stream requests
    protocol::DcpStreamRequest asked_{};  ///< the last stream request
    std::vector<uint32_t> logOpaques_;    ///< of the requests for failover logs
    std::vector<std::string> statRequests_;
    int seqnoRequests_{0};
    std::set<uint32_t> seqnoOpaques_;  ///< the one for all vBuckets is 0, and comes last
    ReplicationSession session_{
            *bucket_, source_, [this](const FrameSpec& frame) {
                if (frame.opcode == Opcode::kDcpControl) {
                    controls_[std::string(protocol::asText(frame.key))] = {
                            std::string(protocol::asText(frame.value)), frame.opaque};
                }
                if (frame.opcode == Opcode::kDcpGetFailoverLog) {
                    logOpaques_.push_back(frame.opaque);
                }
                if (frame.opcode == Opcode::kStat) {
                    statRequests_.emplace_back(protocol::asText(frame.key));
                }
                if (frame.opcode == Opcode::kGetAllVBSeqnos && frame.opaque < kVBucketQuestion) {
                    ++seqnoRequests_;
                    seqnoOpaques_.insert(frame.opaque);
                }
                if (frame.opcode == Opcode::kDcpStreamReq) {
                    opaques_.push_back(frame.opaque);
                    asked_ = protocol::decodeDcpStreamRequest(frame.extras);
                }
            }};
};

}  // namespace kv::server
