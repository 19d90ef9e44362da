#include "server/replication/replication_session.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/login/sasl.h"
#include "server/replication/replication_session_test_support.h"

namespace kv::server {
namespace {

TEST_F(ReplicationSessionTest, AnEndedStreamIsRequestedAgainAtOnce) {
    ASSERT_EQ(opaques_.size(), 1u);
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    end();  // the next round of requests is a second away
    ASSERT_EQ(opaques_.size(), 2u);
    EXPECT_NE(opaques_.front(), opaques_.back());
}

TEST_F(ReplicationSessionTest, ASourceMayLackMarkersWithAPurgeSeqno) {
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

TEST_F(ReplicationSessionTest, ASourceWithMoreVBucketsIsLeft) {
    const auto answer = [this](std::vector<uint8_t> vbucketAndSeqno) {
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kGetAllVBSeqnos,
              .opaque = kVBucketQuestion,
              .value = vbucketAndSeqno});
    };
    EXPECT_NO_THROW(answer({0, 0, 0, 0, 0, 0, 0, 0, 0, 7}));
    EXPECT_THROW(answer({0, 1, 0, 0, 0, 0, 0, 0, 0, 7}), std::runtime_error);
}

TEST_F(ReplicationSessionTest, AStreamThatEndsImmediatelyIsNotRequestedInALoop) {
    for (int i = 0; i < 1000; ++i) {
        accept();
        end();
    }
    const auto took = std::chrono::steady_clock::now() - begun_;
    // One per round, and one for each time that this test did not run for kShortLife.
    EXPECT_LE(opaques_.size(), 2 + took / ReplicationSession::kShortLife);
}

TEST_F(ReplicationSessionTest, AStreamEndedForAnotherReasonWaitsForTheNextRound) {
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    end(dcp::EndStatus::Slow);
    const auto took = std::chrono::steady_clock::now() - begun_;
    EXPECT_LE(opaques_.size(), 1 + took / ReplicationSession::kRetryPause) << "one per round";
}

TEST_F(ReplicationSessionTest, ASourceThatIgnoresAcknowledgementsIsLeft) {
    const std::string value(1 << 20, 'v');
    const auto flood = [&](uint64_t from, uint64_t to) {
        for (uint64_t seqno = from; seqno <= to; ++seqno) {
            mutate(seqno, value);
        }
    };
    accept();
    snapshot(1, 1000);
    EXPECT_NO_THROW(flood(1, 60)) << "all of it is acknowledged";
    bucket_->setQuota(1);  // no more is applied
    EXPECT_NO_THROW(flood(61, 90)) << "the buffer, and a message that is larger";
    EXPECT_THROW(flood(91, 120), std::runtime_error);
    requestAgain();
    accept();
    snapshot(61, 1000);
    EXPECT_NO_THROW(flood(61, 90)) << "another connection";
}

TEST_F(ReplicationSessionTest, AnErrorNamesTheNumberThatIsOutOfRange) {
    const auto marker = [&](uint64_t end) {
        send({.opcode = Opcode::kDcpSnapshotMarker,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .extras = protocol::encodeDcpSnapshotMarker({.start = 0, .end = end, .flags = 1})});
    };
    const auto versioned = [&](uint8_t version, size_t bytes, uint64_t purged) {
        auto value = protocol::encodeDcpSnapshotMarkerV22({.end = 9, .flags = 1, .purged = purged});
        send({.opcode = Opcode::kDcpSnapshotMarker,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .extras = protocol::Bytes(&version, 1),
              .value = protocol::Bytes(value.data(), bytes)});
    };
    const auto mutation = [&](uint64_t seqno, uint64_t revision, uint64_t cas) {
        send({.opcode = Opcode::kDcpMutation,
              .vbucketOrStatus = kReplicaVb.get(),
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
    EXPECT_EQ(refusalOf([&] { marker(kOne << 47U); }), "a seqno out of range");
    EXPECT_EQ(refusalOf([&] { versioned(2, 52, kOne << 47U); }), "a seqno out of range");
    const char* const unknown = "a snapshot marker of a version that was not requested";
    EXPECT_EQ(refusalOf([&] { versioned(3, 52, 0); }), unknown);
    EXPECT_EQ(refusalOf([&] { versioned(2, 51, 0); }), unknown);
    EXPECT_EQ(refusalOf([&] { versioned(2, 0, 0); }), unknown);
    marker(9);
    EXPECT_EQ(refusalOf([&] { mutation(kOne << 47U, 1, 5); }), "a seqno out of range");
    EXPECT_EQ(refusalOf([&] { mutation(1, kOne << 48U, 5); }), "a revision out of range");
    EXPECT_EQ(refusalOf([&] { mutation(1, 1, kOne << 63U); }), "a CAS out of range");
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{0});
    // The next after the highest that a client may set.
    mutation(1, kOne << 47U, kOne << 62U);
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    const OpResult meta = bucket_->getMeta(kReplicaVb, "key", OpTime::now());
    EXPECT_EQ(meta.number, kOne << 47U);
    EXPECT_EQ(meta.cas, Cas{kOne << 62U});
}

TEST_F(ReplicationSessionTest, APromotedVBucketIsNotRequestedAgain) {
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    end();
    EXPECT_EQ(opaques_.size(), 1u);
}

TEST_F(ReplicationSessionTest, AVBucketPromotedDuringARequestKeepsItsHistoryEvenAsAReplicaAgain) {
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    bucket_->setVBucketState(kReplicaVb, VbState::Replica, OpTime::now());
    const auto own = bucket_->vbucket(kReplicaVb).failoverLog().entries();
    accept();
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).failoverLog().entries(), own);
}

TEST_F(ReplicationSessionTest, APromotedVBucketThatIsAReplicaAgainIsRequestedByItsOwnHistory) {
    accept();
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    bucket_->setVBucketState(kReplicaVb, VbState::Replica, OpTime::now());
    EXPECT_TRUE(requestsAgain()) << "even if its former stream has no more messages";
}

TEST_F(ReplicationSessionTest, ARefusedStreamIsReportedWithItsStatusUntilOneIsAccepted) {
    EXPECT_EQ(stat("streams_refused"), "0");
    refuse(protocol::Status::kEtmpfail);
    EXPECT_EQ(stat("streams_refused"), "1");
    EXPECT_EQ(stat("vb_0:stream_refused"), "Etmpfail (0x86)");
    ASSERT_TRUE(requestsAgain());
    EXPECT_EQ(stat("streams_refused"), "1") << "there is no other answer yet";
    refuse(protocol::Status::kNotMyVbucket);
    EXPECT_EQ(stat("vb_0:stream_refused"), "NotMyVbucket (0x07)");
    ASSERT_TRUE(requestsAgain());
    accept();
    EXPECT_EQ(stat("streams_refused"), "0");
    EXPECT_EQ(stat("vb_0:stream_refused"), "none");
}

TEST_F(ReplicationSessionTest, APromotedVBucketIsNotReportedAsRefused) {
    refuse(protocol::Status::kEtmpfail);
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    EXPECT_EQ(stat("streams_refused"), "0");
    EXPECT_EQ(stat("vb_0:stream_refused"), "none");
}

TEST_F(ReplicationSessionTest, ASourceThatAsksForARollbackToWhereACopyIsGetsNoRequestsInALoop) {
    const auto askToRollBack = [this](uint64_t seqno) {
        const auto bytes = protocol::encodeU64(seqno);
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .vbucketOrStatus = protocol::raw(protocol::Status::kRollback),
              .opaque = opaques_.back(),
              .value = bytes});
    };
    for (const uint64_t seqno : {uint64_t{0}, uint64_t{7}}) {
        const auto requests = opaques_.size();
        askToRollBack(seqno);
        if (std::chrono::steady_clock::now() < begun_ + ReplicationSession::kRetryPause) {
            EXPECT_EQ(opaques_.size(), requests);
        }
        EXPECT_EQ(stat("rollbacks"), "0");
        EXPECT_EQ(stat("vb_0:stream_refused"), "Rollback (0x23)");
        requestAgain();
    }
}

TEST_F(ReplicationSessionTest, AFailoverLogIsTakenUpToTheNumberOfHistoriesThatAreKept) {
    History history;
    for (uint64_t uuid = 1; uuid <= 1000; ++uuid) {
        history.push_back({VbUuid{uuid}, Seqno{0}});
    }
    accept(history);
    history.resize(FailoverLog::kMaxEntries);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).failoverLog().entries(), history);
}

TEST_F(ReplicationSessionTest, ASourceThatAnswersWithABrokenFailoverLogIsLeft) {
    const std::vector<uint8_t> broken(15);
    EXPECT_THROW(send({.magic = Magic::kClientResponse,
                       .opcode = Opcode::kDcpStreamReq,
                       .opaque = opaques_.back(),
                       .value = broken}),
                 std::runtime_error);
    EXPECT_EQ(stat("streams_refused"), "0");
}

TEST_F(ReplicationSessionTest, AStreamIsRequestedByTheHistoryOfItsData) {
    // The source was promoted at seqno 3; another replica of its predecessor does not know that.
    constexpr VbUuid kOld{8};
    constexpr VbUuid kNew{9};
    accept({{kNew, Seqno{3}}, {kOld, Seqno{0}}});
    snapshot(1, 2);
    deletion(1);
    deletion(2);
    EXPECT_EQ(requestAgain().uuid, kOld.get());
    accept({{kNew, Seqno{3}}, {kOld, Seqno{0}}});
    snapshot(3, 3);
    deletion(3);
    EXPECT_EQ(requestAgain().uuid, kOld.get()) << "the new history begins behind it";
    accept({{kNew, Seqno{3}}, {kOld, Seqno{0}}});
    snapshot(4, 4);
    deletion(4);
    EXPECT_EQ(requestAgain().uuid, kNew.get());
}

TEST_F(ReplicationSessionTest, APartOfASnapshotIsOfTheHistoryOfItsEnd) {
    accept({{VbUuid{9}, Seqno{3}}, {VbUuid{8}, Seqno{0}}});
    snapshot(1, 5);
    deletion(2);  // seqno 1 was replaced by one up to 5, in the new history
    const auto asked = requestAgain();
    EXPECT_EQ(asked.start, 2u);
    EXPECT_EQ(asked.snapshotEnd, 5u);
    EXPECT_EQ(asked.uuid, 9u);
}

/// A session that logs in at its source.
class ReplicationLoginTest : public testing::Test {
  protected:
    using FrameSpec = protocol::FrameSpec;
    using Opcode = protocol::Opcode;

    ReplicationLoginTest() { bucket_->setVBucketState(Vbid{0}, VbState::Replica, OpTime::now()); }

    void send(const FrameSpec& spec) {
        std::vector<uint8_t> bytes;
        protocol::appendFrame(bytes, spec);
        session_.handle(protocol::parseFrame(bytes).frame);
    }
    void answer(Opcode opcode, protocol::Status status, std::string_view value) {
        send({.magic = protocol::Magic::kClientResponse,
              .opcode = opcode,
              .vbucketOrStatus = protocol::raw(status),
              .opaque = opaque_,
              .value = protocol::asBytes(value)});
    }
    void logIn() {
        session_.begin();
        answer(Opcode::kSaslListMechs, protocol::Status::kSuccess, "SCRAM-SHA512");
        SaslExchange exchange(users_);
        const auto first = exchange.start("SCRAM-SHA512", proof_);
        answer(Opcode::kSaslAuth, protocol::Status::kAuthContinue, first.message);
        const auto last = exchange.step("SCRAM-SHA512", proof_);
        answer(Opcode::kSaslStep, protocol::Status::kSuccess, last.message);
    }
    void mutate(uint64_t seqno) {
        send({.opcode = Opcode::kDcpMutation,
              .opaque = opaque_,
              .cas = seqno,
              .extras = protocol::encodeDcpMutation({.seqno = seqno, .revSeqno = 1}),
              .key = protocol::asBytes("key")});
    }
    Seqno high() const { return bucket_->vbucket(Vbid{0}).highSeqno(); }

    const std::unique_ptr<Bucket> bucket_{Bucket::createEphemeral({.vbuckets = 1})};
    const UserStore users_{std::map<std::string, std::string>{{"ann", "secret"}}};
    const ReplicationSource source_{
            .host = "source", .port = 11210, .user = "ann", .password = "secret"};
    std::string proof_;   ///< the last message of the login
    uint32_t opaque_{0};  ///< of the last stream request
    ReplicationSession session_{*bucket_, source_, [this](const FrameSpec& frame) {
                                    if (frame.opcode == Opcode::kDcpStreamReq) {
                                        opaque_ = frame.opaque;
                                    } else {
                                        proof_ = protocol::asText(frame.value);
                                    }
                                }};
};

TEST_F(ReplicationLoginTest, ASourceThatHasNotProvedThePasswordChangesNothing) {
    logIn();
    const auto log = protocol::encodeMutationToken(9, 0);
    answer(Opcode::kDcpStreamReq, protocol::Status::kSuccess, protocol::asText(log));
    send({.opcode = Opcode::kDcpSnapshotMarker,
          .opaque = opaque_,
          .extras = protocol::encodeDcpSnapshotMarker({1, 9, dcp::kMarkerMemory})});
    mutate(1);
    EXPECT_EQ(high(), Seqno{1});
    session_.begin();  // on a new connection
    EXPECT_THROW(mutate(2), std::runtime_error);
    EXPECT_EQ(high(), Seqno{1});
    EXPECT_THROW(answer(Opcode::kDcpStreamReq, protocol::Status::kRollback,
                        protocol::asText(protocol::encodeU64(0))),
                 std::runtime_error);
    EXPECT_EQ(high(), Seqno{1});
    EXPECT_NO_THROW(logIn());
}

}  // namespace
}  // namespace kv::server
