#include "server/replication/replication_session.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "protocol/dcp.h"

namespace kv::server {
namespace {

using protocol::FrameSpec;
using protocol::Magic;
using protocol::Opcode;

constexpr Vbid kReplicaVb{0};

/// The test plays a source without users.
class ReplicationSessionTest : public testing::Test {
  protected:
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
    /// Refuses the last stream request: the source has another history.
    void tellToStartOver() {
        const std::vector<uint8_t> toNothing(sizeof(uint64_t));
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .vbucketOrStatus = protocol::raw(protocol::Status::kRollback),
              .opaque = opaques_.back(),
              .value = toNothing});
    }
    /// Refuses the last stream request with this status.
    void refuse(protocol::Status status) {
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .vbucketOrStatus = protocol::raw(status),
              .opaque = opaques_.back()});
    }
    /// Answers a request for the source's failover log, which comes before the request for its
    /// seqnos.
    void answerLog(const History& history, protocol::Status status = protocol::Status::kSuccess) {
        const auto log = encode(history);
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpGetFailoverLog,
              .vbucketOrStatus = protocol::raw(status),
              .opaque = logOpaques_.back(),
              .value = log});
    }
    /// Of a source that was promoted with a part of what is here.
    void answerRelatedLog() { answerLog({{VbUuid{10}, Seqno{0}}, {VbUuid{9}, Seqno{0}}}); }
    /// Answers a request for the source's seqnos.
    void answerSeqnos(uint64_t high, protocol::Status status = protocol::Status::kSuccess,
                      bool active = true) {
        std::vector<uint8_t> entry(10);
        storeBig(entry.data(), kReplicaVb.get());
        storeBig(entry.data() + 2, high);
        const std::vector<uint32_t> asked(seqnoOpaques_.rbegin(), seqnoOpaques_.rend());
        for (const uint32_t opaque : asked) {
            const bool listed = opaque == 0 || active;
            send({.magic = Magic::kClientResponse,
                  .opcode = Opcode::kGetAllVBSeqnos,
                  .vbucketOrStatus = protocol::raw(status),
                  .opaque = opaque,
                  .value = listed ? protocol::Bytes(entry) : protocol::Bytes()});
        }
    }
    /// Fills a replica with `documents` documents, then requests its stream again.
    void fill(uint64_t documents) {
        accept();
        snapshot(1, documents);
        for (uint64_t seqno = 1; seqno <= documents; ++seqno) {
            mutate(seqno);
        }
        requestAgain();
    }
    void mutate(uint64_t seqno) {
        const auto extras = protocol::encodeDcpMutation({.seqno = seqno, .revSeqno = 1});
        const auto key = std::to_string(seqno);
        send({.opcode = Opcode::kDcpMutation,
              .vbucketOrStatus = kReplicaVb.get(),
              .opaque = opaques_.back(),
              .cas = seqno,
              .extras = extras,
              .key = protocol::asBytes(key),
              .value = protocol::asBytes("value")});
    }
    /// Forgets the copy, as kvctl discard-copies does.
    void discardCopy() {
        const auto now = OpTime::now();
        bucket_->setVBucketState(kReplicaVb, VbState::Dead, now);
        EXPECT_EQ(bucket_->deleteVBucket(kReplicaVb, now), OpStatus::Ok);
        bucket_->setVBucketState(kReplicaVb, VbState::Replica, now);
    }
    /// Runs the upkeep until another stream is requested. Returns false if none ever is.
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
    int seqnoRequests_{0};
    std::set<uint32_t> seqnoOpaques_;  ///< the one for all vBuckets is 0, and comes last
    ReplicationSession session_{*bucket_, source_, [this](const FrameSpec& frame) {
                                    if (frame.opcode == Opcode::kDcpControl) {
                                        controls_[std::string(protocol::asText(frame.key))] = {
                                                std::string(protocol::asText(frame.value)),
                                                frame.opaque};
                                    }
                                    if (frame.opcode == Opcode::kDcpGetFailoverLog) {
                                        logOpaques_.push_back(frame.opaque);
                                    }
                                    if (frame.opcode == Opcode::kGetAllVBSeqnos) {
                                        ++seqnoRequests_;
                                        seqnoOpaques_.insert(frame.opaque);
                                    }
                                    if (frame.opcode == Opcode::kDcpStreamReq) {
                                        opaques_.push_back(frame.opaque);
                                        asked_ = protocol::decodeDcpStreamRequest(frame.extras);
                                    }
                                }};
};

TEST_F(ReplicationSessionTest, AnEndedStreamIsRequestedAgainAtOnce) {
    ASSERT_EQ(opaques_.size(), 1u);
    accept();
    std::this_thread::sleep_for(ReplicationSession::kShortLife);
    end();  // the next round of requests is a second away
    ASSERT_EQ(opaques_.size(), 2u);
    EXPECT_NE(opaques_.front(), opaques_.back());
}

TEST_F(ReplicationSessionTest, ASourceNeedNotSupportMarkersWithAPurgeSeqno) {
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
    if (std::chrono::steady_clock::now() < begun_ + ReplicationSession::kRetryPause) {
        EXPECT_EQ(opaques_.size(), 1u);
    }
}

TEST_F(ReplicationSessionTest, ImpossibleNumbersAreRefusedByName) {
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

TEST_F(ReplicationSessionTest, AVBucketPromotedDuringARequestIsNotWipedByALateRollback) {
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    const BucketMemoryGuard guard(bucket_->memory());
    ASSERT_TRUE(bucket_->store(kReplicaVb, "key", StoreMode::Set, "value", {}, OpTime::now()).ok());
    bucket_->setVBucketState(kReplicaVb, VbState::Replica, OpTime::now());
    tellToStartOver();
    answerLog(bucket_->vbucket(kReplicaVb).failoverLog().entries());
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{1});
    EXPECT_EQ(bucket_->stats().storedValues, 1U);
}

TEST_F(ReplicationSessionTest, ACopyIsKeptIfASourceWithLessAsksToStartOver) {
    fill(3);
    tellToStartOver();
    EXPECT_EQ(seqnoRequests_, 2);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{3}) << "not before the answer";
    answerRelatedLog();
    answerSeqnos(2);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{3});
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).state(), VbState::Replica);
    EXPECT_EQ(stat("copies_kept"), "1");
    EXPECT_EQ(stat("vb_0:copy_kept"),
              "3 documents up to seqno 3; the source has another history, which ended at seqno 2");
    EXPECT_EQ(stat("rollbacks"), "0");
}

TEST_F(ReplicationSessionTest, AKeptCopyStaysWhenTheSourceHasMoreAgain) {
    fill(3);
    tellToStartOver();
    answerSeqnos(0);
    requestAgain();
    tellToStartOver();
    answerRelatedLog();  // nobody asked
    answerSeqnos(1000);
    EXPECT_EQ(seqnoRequests_, 2);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(ReplicationSessionTest, ACopyIsKeptThoughASourceOfAnUnrelatedHistoryHasMore) {
    fill(3);
    tellToStartOver();
    ASSERT_EQ(logOpaques_.size(), 1U);
    answerLog({{VbUuid{77}, Seqno{0}}});
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
    EXPECT_EQ(stat("rollbacks"), "0");
}

TEST_F(ReplicationSessionTest, ACopyIsKeptThoughASourceThatDoesNotSayItsHistoryHasMore) {
    fill(3);
    tellToStartOver();
    answerLog({{VbUuid{9}, Seqno{0}}}, protocol::Status::kNotMyVbucket);
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(ReplicationSessionTest, ACopyUnknownToTheSourceIsKept) {
    fill(3);
    tellToStartOver();
    answerRelatedLog();
    answerSeqnos(1000, protocol::Status::kUnknownCommand);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(ReplicationSessionTest, ASourceWithAsMuchMayLetAReplicaStartOver) {
    fill(3);
    tellToStartOver();
    answerRelatedLog();
    answerSeqnos(3);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
    EXPECT_EQ(asked_.start, 0U);
    EXPECT_EQ(stat("rollbacks"), "1");
    EXPECT_EQ(stat("copies_kept"), "0");
}

TEST_F(ReplicationSessionTest, ACopyIsReplicatedAgainWhenTheSourceKnowsItsHistory) {
    fill(3);
    tellToStartOver();
    answerSeqnos(0);
    requestAgain();
    accept();
    EXPECT_EQ(stat("copies_kept"), "0");
    snapshot(4, 4);
    mutate(4);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{4});
}

TEST_F(ReplicationSessionTest, ACopyThatIsDiscardedUnderItsStreamIsFetchedAgain) {
    accept();
    snapshot(1, 2);
    mutate(1);
    mutate(2);
    discardCopy();
    ASSERT_TRUE(requestsAgain());
    EXPECT_EQ(asked_.start, 0U);
    accept();
    snapshot(1, 2);
    mutate(1);
    mutate(2);
    EXPECT_EQ(bucket_->stats().storedValues, 2U);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).failoverLog().uuid(), VbUuid{9});
}

TEST_F(ReplicationSessionTest, ACopyThatIsDiscardedUnderItsStreamGetsNoLaterPartOfIt) {
    accept();
    snapshot(1, 2);
    mutate(1);
    mutate(2);
    discardCopy();
    EXPECT_NO_THROW(snapshot(3, 3)) << "the other vBuckets' streams stay";
    mutate(3);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{0});
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
}

TEST_F(ReplicationSessionTest, ALateAcceptanceGivesADiscardedCopyNoHistory) {
    fill(2);
    discardCopy();
    accept({{VbUuid{9}, Seqno{0}}});  // of a stream from seqno 2 on
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).failoverLog().uuid(), VbUuid{0});
    ASSERT_TRUE(requestsAgain());
    EXPECT_EQ(asked_.start, 0U);
}

TEST_F(ReplicationSessionTest, APromotedVBucketThatIsAReplicaAgainIsRequestedByItsOwnHistory) {
    accept();
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    bucket_->setVBucketState(kReplicaVb, VbState::Replica, OpTime::now());
    EXPECT_TRUE(requestsAgain()) << "even if its former stream has no more messages";
}

TEST_F(ReplicationSessionTest, ACopyIsNotReportedAsKeptOnceItIsDiscarded) {
    fill(3);
    tellToStartOver();
    answerSeqnos(0);
    ASSERT_EQ(stat("copies_kept"), "1");
    discardCopy();
    EXPECT_EQ(stat("copies_kept"), "0") << "or it is discarded again when the stream has begun";
    EXPECT_EQ(stat("vb_0:copy_kept"), "none");
}

TEST_F(ReplicationSessionTest, AnAnswerOfAnEarlierConnectionDecidesNothing) {
    fill(3);
    tellToStartOver();
    requestAgain();
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    tellToStartOver();
    EXPECT_EQ(seqnoRequests_, 4);
    answerRelatedLog();
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
}

TEST_F(ReplicationSessionTest, ASourceThatIsAReplicaMayBeStartingOverItself) {
    fill(3);
    tellToStartOver();
    answerSeqnos(0, protocol::Status::kSuccess, /*active=*/false);
    EXPECT_EQ(stat("copies_kept"), "1");
    requestAgain();
    tellToStartOver();
    answerRelatedLog();
    answerSeqnos(5, protocol::Status::kSuccess, /*active=*/false);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
    EXPECT_EQ(stat("copies_kept"), "0");
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

TEST_F(ReplicationSessionTest, ARequestToRollBackIsNoRefusal) {
    refuse(protocol::Status::kEtmpfail);
    ASSERT_TRUE(requestsAgain());
    tellToStartOver();
    EXPECT_EQ(stat("streams_refused"), "0");
}

TEST_F(ReplicationSessionTest, APromotedVBucketIsNotReportedAsRefused) {
    refuse(protocol::Status::kEtmpfail);
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    EXPECT_EQ(stat("streams_refused"), "0");
    EXPECT_EQ(stat("vb_0:stream_refused"), "none");
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
    deletion(2);  // what was between is deleted or changed up to 5 in the new history
    const auto asked = requestAgain();
    EXPECT_EQ(asked.start, 2u);
    EXPECT_EQ(asked.snapshotEnd, 5u);
    EXPECT_EQ(asked.uuid, 9u);
}

}  // namespace
}  // namespace kv::server
