#include "server/replication_session.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
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
    /// The answer to the last stream request: it begins, with this history.
    void accept(const std::vector<FailoverEntry>& history = {{VbUuid{9}, Seqno{0}}}) {
        std::vector<uint8_t> log;
        for (const auto& entry : history) {
            const auto bytes = protocol::encodeMutationToken(entry.uuid.get(), entry.seqno.get());
            log.insert(log.end(), bytes.begin(), bytes.end());
        }
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .opaque = opaques_.back(),
              .value = log});
    }
    void snapshot(uint64_t start, uint64_t end) {
        const auto extras = protocol::encodeDcpSnapshotMarker({start, end, dcp::kMarkerMemory});
        send({.opcode = Opcode::kDcpSnapshotMarker,
              .vbucketOrStatus = kVb.get(),
              .opaque = opaques_.back(),
              .extras = extras});
    }
    void deletion(uint64_t seqno) {
        const auto extras = protocol::encodeDcpDeletion({.seqno = seqno, .revSeqno = 1});
        const auto key = std::to_string(seqno);
        send({.opcode = Opcode::kDcpDeletion,
              .vbucketOrStatus = kVb.get(),
              .opaque = opaques_.back(),
              .cas = seqno,
              .extras = extras,
              .key = protocol::asBytes(key)});
    }
    /// What the next connection's request says.
    protocol::DcpStreamRequest requestAnew() {
        session_.begin();
        return asked_;
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
    /// Value and opaque.
    std::map<std::string, std::pair<std::string, uint32_t>> controls_;
    std::vector<uint32_t> opaques_;       ///< of the stream requests
    protocol::DcpStreamRequest asked_{};  ///< the last one
    ReplicationSession session_{*bucket_, source_, [this](const FrameSpec& frame) {
                                    if (frame.opcode == Opcode::kDcpControl) {
                                        controls_[std::string(protocol::asText(frame.key))] = {
                                                std::string(protocol::asText(frame.value)),
                                                frame.opaque};
                                    }
                                    if (frame.opcode == Opcode::kDcpStreamReq) {
                                        opaques_.push_back(frame.opaque);
                                        asked_ = protocol::decodeDcpStreamRequest(frame.extras);
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

TEST_F(ReplicationSessionTest, ASourceNeedNotKnowMarkersThatSayWhatIsPurged) {
    const auto refuse = [this](const std::string& control) {
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpControl,
              .vbucketOrStatus = static_cast<uint16_t>(protocol::Status::kEinval),
              .opaque = controls_.at(control).second});
    };
    EXPECT_EQ(controls_.at("max_marker_version").first, "2.2");
    EXPECT_NO_THROW(refuse("max_marker_version"));
    EXPECT_THROW(refuse("enable_expiry_opcode"), std::runtime_error);
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

TEST_F(ReplicationSessionTest, WhatNoVBucketGivesIsRefusedByItsName) {
    const auto marker = [&](uint64_t end) {
        send({.opcode = Opcode::kDcpSnapshotMarker,
              .vbucketOrStatus = kVb.get(),
              .opaque = opaques_.back(),
              .extras = protocol::encodeDcpSnapshotMarker({.start = 0, .end = end, .flags = 1})});
    };
    const auto versioned = [&](uint8_t version, size_t bytes, uint64_t purged) {
        auto value = protocol::encodeDcpSnapshotMarkerV22({.end = 9, .flags = 1, .purged = purged});
        send({.opcode = Opcode::kDcpSnapshotMarker,
              .vbucketOrStatus = kVb.get(),
              .opaque = opaques_.back(),
              .extras = protocol::Bytes(&version, 1),
              .value = protocol::Bytes(value.data(), bytes)});
    };
    const auto mutation = [&](uint64_t seqno, uint64_t revision, uint64_t cas) {
        send({.opcode = Opcode::kDcpMutation,
              .vbucketOrStatus = kVb.get(),
              .opaque = opaques_.back(),
              .cas = cas,
              .extras = protocol::encodeDcpMutation({.seqno = seqno, .revSeqno = revision}),
              .key = protocol::asBytes("key"),
              .value = protocol::asBytes("value")});
    };
    const auto refusalOf = [](const auto& act) -> std::string {
        try {
            act();
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "none";
    };
    constexpr uint64_t kOne = 1;
    accept();
    EXPECT_EQ(refusalOf([&] { marker(kOne << 47U); }), "a seqno that no vBucket gives");
    EXPECT_EQ(refusalOf([&] { versioned(2, 52, kOne << 47U); }), "a seqno that no vBucket gives");
    const char* const unknown = "a snapshot marker of a version that was not asked for";
    EXPECT_EQ(refusalOf([&] { versioned(3, 52, 0); }), unknown);
    EXPECT_EQ(refusalOf([&] { versioned(2, 51, 0); }), unknown);
    EXPECT_EQ(refusalOf([&] { versioned(2, 0, 0); }), unknown);
    marker(9);
    EXPECT_EQ(refusalOf([&] { mutation(kOne << 47U, 1, 5); }), "a seqno that no vBucket gives");
    EXPECT_EQ(refusalOf([&] { mutation(1, kOne << 48U, 5); }), "a revision that no vBucket gives");
    EXPECT_EQ(refusalOf([&] { mutation(1, 1, kOne << 63U); }), "a CAS that no vBucket gives");
    EXPECT_EQ(bucket_->vbucket(kVb).highSeqno(), Seqno{0});
    // What follows the highest that a client may bring.
    mutation(1, kOne << 47U, kOne << 62U);
    bucket_->setVBucketState(kVb, VbState::Active, OpTime::now());
    const OpResult meta = bucket_->getMeta(kVb, "key", OpTime::now());
    EXPECT_EQ(meta.number, kOne << 47U);
    EXPECT_EQ(meta.cas, Cas{kOne << 62U});
}

TEST_F(ReplicationSessionTest, WhatWasPromotedIsNotAskedForAgain) {
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    bucket_->setVBucketState(kVb, VbState::Active, OpTime::now());
    end();
    EXPECT_EQ(opaques_.size(), 1u);
}

TEST_F(ReplicationSessionTest, WhatWasPromotedMeanwhileKeepsItsHistoryEvenAsAReplicaAgain) {
    bucket_->setVBucketState(kVb, VbState::Active, OpTime::now());
    bucket_->setVBucketState(kVb, VbState::Replica, OpTime::now());
    const auto own = bucket_->vbucket(kVb).failoverLog().entries();
    accept();
    EXPECT_EQ(bucket_->vbucket(kVb).failoverLog().entries(), own);
}

TEST_F(ReplicationSessionTest, WhatWasPromotedMeanwhileIsNotWipedByALateRollback) {
    bucket_->setVBucketState(kVb, VbState::Active, OpTime::now());
    const BucketMemoryGuard guard(bucket_->memory());
    ASSERT_TRUE(bucket_->store(kVb, "key", StoreMode::Set, "value", {}, OpTime::now()).ok());
    bucket_->setVBucketState(kVb, VbState::Replica, OpTime::now());
    const std::vector<uint8_t> toNothing(sizeof(uint64_t));
    send({.magic = Magic::kClientResponse,
          .opcode = Opcode::kDcpStreamReq,
          .vbucketOrStatus = protocol::raw(protocol::Status::kRollback),
          .opaque = opaques_.back(),
          .value = toNothing});
    EXPECT_EQ(bucket_->vbucket(kVb).highSeqno(), Seqno{1});
    EXPECT_EQ(bucket_->stats().storedValues, 1U);
}

TEST_F(ReplicationSessionTest, AStreamIsAskedForByTheHistoryOfWhatIsHere) {
    // The source was promoted at 3; another replica of its predecessor knows nothing of that.
    constexpr VbUuid kOld{8};
    constexpr VbUuid kNew{9};
    accept({{kNew, Seqno{3}}, {kOld, Seqno{0}}});
    snapshot(1, 2);
    deletion(1);
    deletion(2);
    EXPECT_EQ(requestAnew().uuid, kOld.get());
    accept({{kNew, Seqno{3}}, {kOld, Seqno{0}}});
    snapshot(3, 3);
    deletion(3);
    EXPECT_EQ(requestAnew().uuid, kOld.get()) << "the new history begins behind it";
    accept({{kNew, Seqno{3}}, {kOld, Seqno{0}}});
    snapshot(4, 4);
    deletion(4);
    EXPECT_EQ(requestAnew().uuid, kNew.get());
}

TEST_F(ReplicationSessionTest, APartOfASnapshotIsOfTheHistoryOfItsEnd) {
    accept({{VbUuid{9}, Seqno{3}}, {VbUuid{8}, Seqno{0}}});
    snapshot(1, 5);
    deletion(2);  // what was between is deleted or changed up to 5, in the new history
    const auto asked = requestAnew();
    EXPECT_EQ(asked.start, 2u);
    EXPECT_EQ(asked.snapshotEnd, 5u);
    EXPECT_EQ(asked.uuid, 9u);
}

}  // namespace
}  // namespace kv::server
