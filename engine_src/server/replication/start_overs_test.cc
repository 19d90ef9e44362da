#include "server/replication/start_overs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/replication/replication_session_test_support.h"

namespace kv::server {
namespace {

/// The decisions, as a session asks for them and carries them out.
class StartOversTest : public ReplicationSessionTest {
  protected:
    /// Answers the last stream request as a source with another history does.
    void askToStartOver() { askToRollBack(0); }
    void askToRollBack(uint64_t to) {
        std::vector<uint8_t> seqno(sizeof(uint64_t));
        storeBig(seqno.data(), to);
        send({.magic = Magic::kClientResponse,
              .opcode = Opcode::kDcpStreamReq,
              .vbucketOrStatus = protocol::raw(protocol::Status::kRollback),
              .opaque = opaques_.back(),
              .value = seqno});
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
    /// Answers as a source that was promoted with a part of this copy.
    void answerRelatedLog() { answerLog({{VbUuid{10}, Seqno{0}}, {VbUuid{9}, Seqno{0}}}); }
    /// Answers a request for the details of a vBucket.
    void answerDocuments(uint64_t count) {
        ASSERT_FALSE(statRequests_.empty());
        EXPECT_EQ(statRequests_.back(), "vbucket-details 0");
        for (const auto& [key, value] : std::map<std::string, std::string>{
                     {"vb_0", "active"}, {"vb_0:num_items", std::to_string(count)}, {"", ""}}) {
            send({.magic = Magic::kClientResponse,
                  .opcode = Opcode::kStat,
                  .opaque = logOpaques_.back(),
                  .key = protocol::asBytes(key),
                  .value = protocol::asBytes(value)});
        }
    }
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
    /// Empties the vBucket, as kvctl discard-copies does.
    void discardCopy() {
        const auto now = OpTime::now();
        bucket_->setVBucketState(kReplicaVb, VbState::Dead, now);
        EXPECT_EQ(bucket_->deleteVBucket(kReplicaVb, now), OpStatus::Ok);
        bucket_->setVBucketState(kReplicaVb, VbState::Replica, now);
    }
};

TEST_F(StartOversTest, AVBucketPromotedDuringARequestIsNotWipedByALateRollback) {
    bucket_->setVBucketState(kReplicaVb, VbState::Active, OpTime::now());
    const BucketMemoryGuard guard(bucket_->memory());
    ASSERT_TRUE(bucket_->store(kReplicaVb, "key", StoreMode::Set, "value", {}, OpTime::now()).ok());
    bucket_->setVBucketState(kReplicaVb, VbState::Replica, OpTime::now());
    askToStartOver();
    answerLog(bucket_->vbucket(kReplicaVb).failoverLog().entries());
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{1});
    EXPECT_EQ(bucket_->stats().storedValues, 1U);
}

TEST_F(StartOversTest, ACopyIsKeptIfASourceWithLessAsksToStartOver) {
    fill(3);
    askToStartOver();
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

TEST_F(StartOversTest, AKeptCopyStaysWhenTheSourceHasMoreAgain) {
    fill(3);
    askToStartOver();
    answerSeqnos(0);
    requestAgain();
    askToStartOver();
    answerRelatedLog();  // not requested
    answerSeqnos(1000);
    EXPECT_EQ(seqnoRequests_, 2);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(StartOversTest, ACopyIsKeptIfASourceOfAnUnrelatedHistoryHasMore) {
    fill(3);
    askToStartOver();
    ASSERT_EQ(logOpaques_.size(), 1U);
    answerLog({{VbUuid{77}, Seqno{0}}});
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
    EXPECT_EQ(stat("rollbacks"), "0");
}

TEST_F(StartOversTest, ACopyIsKeptIfASourceThatRefusesItsFailoverLogHasMore) {
    fill(3);
    askToStartOver();
    answerLog({{VbUuid{9}, Seqno{0}}}, protocol::Status::kNotMyVbucket);
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(StartOversTest, ACopyIsKeptIfTheSourceRefusesItsSeqnos) {
    fill(3);
    askToStartOver();
    answerRelatedLog();
    answerSeqnos(1000, protocol::Status::kUnknownCommand);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(StartOversTest, ASourceWithAsMuchMayLetAReplicaStartOver) {
    fill(3);
    askToStartOver();
    answerRelatedLog();
    answerSeqnos(3);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
    EXPECT_EQ(asked_.start, 0U);
    EXPECT_EQ(stat("rollbacks"), "1");
    EXPECT_EQ(stat("copies_kept"), "0");
}

TEST_F(StartOversTest, ACopyIsKeptIfASourceThatLostMostAsksToRollBack) {
    fill(100);
    askToRollBack(5);
    EXPECT_EQ(bucket_->stats().storedValues, 100U) << "not before the answer";
    answerLog({{VbUuid{10}, Seqno{5}}, {VbUuid{9}, Seqno{0}}});
    answerDocuments(49);
    answerSeqnos(1000);  // clients wrote to the source before the replica asked
    EXPECT_EQ(bucket_->stats().storedValues, 100U);
    EXPECT_EQ(stat("copies_kept"), "1");
    EXPECT_EQ(stat("rollbacks"), "0");
    requestAgain();
    askToRollBack(5);
    EXPECT_EQ(seqnoRequests_, 2) << "the source was active, so the copy is kept for good";
    EXPECT_EQ(bucket_->stats().storedValues, 100U);
}

TEST_F(StartOversTest, ACopyIsKeptIfASourceThatDoesNotCountItsDocumentsAsksToRollBack) {
    fill(100);
    askToRollBack(5);
    answerLog({{VbUuid{10}, Seqno{5}}, {VbUuid{9}, Seqno{0}}});
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 100U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(StartOversTest, ASourceWithMostDocumentsMayRollAReplicaBack) {
    fill(100);
    askToRollBack(5);  // the others changed just before the source was promoted
    answerLog({{VbUuid{10}, Seqno{5}}, {VbUuid{9}, Seqno{0}}});
    answerDocuments(50);
    answerSeqnos(60);
    EXPECT_EQ(stat("rollbacks"), "1");
    EXPECT_EQ(stat("copies_kept"), "0");
    EXPECT_EQ(bucket_->stats().storedValues, 0U) << "an ephemeral replica starts over";
}

TEST_F(StartOversTest, ARollBackThatTakesFewDocumentsAsksNothing) {
    fill(100);
    askToRollBack(50);
    EXPECT_TRUE(statRequests_.empty());
    EXPECT_EQ(stat("rollbacks"), "1");
}

TEST_F(StartOversTest, ASmallCopyIsRolledBackWhateverTheSourceHas) {
    fill(15);
    askToRollBack(1);
    answerLog({{VbUuid{10}, Seqno{1}}, {VbUuid{9}, Seqno{0}}});
    answerDocuments(0);  // and the other one was deleted
    answerSeqnos(2);
    EXPECT_EQ(stat("rollbacks"), "1");
}

TEST_F(StartOversTest, ACopyIsKeptIfARelatedSourceThatLostAllHasMoreSeqnosAgain) {
    fill(100);
    askToStartOver();
    answerRelatedLog();
    answerDocuments(3);
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 100U);
    EXPECT_EQ(stat("copies_kept"), "1");
}

TEST_F(StartOversTest, ACopyIsReplicatedAgainWhenTheSourceKnowsItsHistory) {
    fill(3);
    askToStartOver();
    answerSeqnos(0);
    requestAgain();
    accept();
    EXPECT_EQ(stat("copies_kept"), "0");
    snapshot(4, 4);
    mutate(4);
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).highSeqno(), Seqno{4});
}

TEST_F(StartOversTest, ACopyThatIsDiscardedUnderItsStreamIsFetchedAgain) {
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

TEST_F(StartOversTest, ACopyThatIsDiscardedUnderItsStreamGetsNoLaterPartOfIt) {
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

TEST_F(StartOversTest, ALateAcceptanceGivesADiscardedCopyNoHistory) {
    fill(2);
    discardCopy();
    accept({{VbUuid{9}, Seqno{0}}});  // of a stream from seqno 2 on
    EXPECT_EQ(bucket_->vbucket(kReplicaVb).failoverLog().uuid(), VbUuid{0});
    ASSERT_TRUE(requestsAgain());
    EXPECT_EQ(asked_.start, 0U);
}

TEST_F(StartOversTest, ACopyIsNotReportedAsKeptOnceItIsDiscarded) {
    fill(3);
    askToStartOver();
    answerSeqnos(0);
    ASSERT_EQ(stat("copies_kept"), "1");
    discardCopy();
    EXPECT_EQ(stat("copies_kept"), "0") << "or it is discarded again when the stream has begun";
    EXPECT_EQ(stat("vb_0:copy_kept"), "none");
}

TEST_F(StartOversTest, AnAnswerOfAnEarlierConnectionDecidesNothing) {
    fill(3);
    askToStartOver();
    requestAgain();
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 3U);
    askToStartOver();
    EXPECT_EQ(seqnoRequests_, 4);
    answerRelatedLog();
    answerSeqnos(1000);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
}

TEST_F(StartOversTest, ASourceThatIsAReplicaMayBeStartingOverItself) {
    fill(3);
    askToStartOver();
    answerSeqnos(0, protocol::Status::kSuccess, /*active=*/false);
    EXPECT_EQ(stat("copies_kept"), "1");
    requestAgain();
    askToStartOver();
    answerRelatedLog();
    answerSeqnos(5, protocol::Status::kSuccess, /*active=*/false);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
    EXPECT_EQ(stat("copies_kept"), "0");
}

TEST_F(StartOversTest, ARequestToRollBackIsNoRefusal) {
    fill(3);
    refuse(protocol::Status::kEtmpfail);
    EXPECT_EQ(stat("streams_refused"), "1");
    ASSERT_TRUE(requestsAgain());
    askToStartOver();
    answerRelatedLog();
    answerSeqnos(5);
    EXPECT_EQ(bucket_->stats().storedValues, 0U);
    EXPECT_EQ(stat("streams_refused"), "0");
}

}  // namespace
}  // namespace kv::server
