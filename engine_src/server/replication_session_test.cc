#include "server/replication_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "protocol/dcp.h"

namespace kv::server {
namespace {

using protocol::FrameSpec;
using protocol::Magic;
using protocol::Opcode;

constexpr Vbid kVb{0};

/// A source without users, played by hand.
class ReplicationSessionTest : public testing::Test {
  protected:
    ReplicationSessionTest() {
        bucket_->setVBucketState(kVb, VbState::Replica, OpTime::now());
        session_.begin();
    }

    static std::unique_ptr<Bucket> makeBucket() {
        BucketConfig config;
        config.vbuckets = 1;
        return Bucket::createEphemeral(config);
    }
    /// From the source.
    void send(const FrameSpec& spec) {
        std::vector<uint8_t> bytes;
        protocol::appendFrame(bytes, spec);
        session_.handle(protocol::parseFrame(bytes).frame);
        session_.upkeep();
    }
    /// The answer to the last stream request: it begins, with a history of one entry.
    void accept() {
        std::vector<uint8_t> log(16);
        log[7] = 9;  // its uuid
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .opaque = opaques_.back(),
              .value = log});
    }
    void end(dcp::EndStatus reason = dcp::EndStatus::StateChanged) {
        const auto extras = protocol::encodeU32(static_cast<uint32_t>(reason));
        send({.opcode = Opcode::kDcpStreamEnd,
              .vbucketOrStatus = kVb.get(),
              .opaque = opaques_.back(),
              .extras = extras});
    }

    const std::chrono::steady_clock::time_point begun_{std::chrono::steady_clock::now()};
    const std::unique_ptr<Bucket> bucket_{makeBucket()};
    const ReplicationSource source_{.host = "source", .port = 11210, .user = "", .password = ""};
    std::vector<uint32_t> opaques_;  ///< of the stream requests
    ReplicationSession session_{*bucket_, source_, [this](const FrameSpec& frame) {
                                    if (frame.opcode == Opcode::kDcpStreamReq) {
                                        opaques_.push_back(frame.opaque);
                                    }
                                }};
};

TEST_F(ReplicationSessionTest, AnEndedStreamIsAskedForAgainAtOnce) {
    ASSERT_EQ(opaques_.size(), 1u);
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    end();  // the next round of requests is a second away
    ASSERT_EQ(opaques_.size(), 2u);
    EXPECT_NE(opaques_.front(), opaques_.back());
}

TEST_F(ReplicationSessionTest, AStreamThatEndsAsSoonAsItIsAskedForIsNotAskedForInALoop) {
    for (int i = 0; i < 1000; ++i) {
        accept();
        end();
    }
    const auto took = std::chrono::steady_clock::now() - begun_;
    // One a round, and one for each time that this test was not let run for kShortLife.
    EXPECT_LE(opaques_.size(), 2 + took / ReplicationSession::kShortLife);
}

TEST_F(ReplicationSessionTest, AStreamThatWasEndedForAnotherReasonWaitsForTheNextRound) {
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    end(dcp::EndStatus::Slow);
    if (std::chrono::steady_clock::now() < begun_ + ReplicationSession::kRetryPause) {
        EXPECT_EQ(opaques_.size(), 1u);
    }
}

TEST_F(ReplicationSessionTest, WhatWasPromotedIsNotAskedForAgain) {
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    bucket_->setVBucketState(kVb, VbState::Active, OpTime::now());
    end();
    EXPECT_EQ(opaques_.size(), 1u);
}

}  // namespace
}  // namespace kv::server
