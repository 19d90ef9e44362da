// Closing of backfill scans: which ones are closed, and that their streams lose nothing.
#include "dcp/scan_watch.h"

#include <gtest/gtest.h>

#include "dcp/producer_test_support.h"

namespace kv::dcp {
namespace {

using namespace std::chrono_literals;
using namespace testing_support;

class ScanWatchTest : public testing::Test {
  protected:
    static constexpr int kItems = 100;
    static constexpr int kUnread = 40;  ///< the first read brings less

    ScanWatchTest() {
        node_.config.maxItems = 4;
        node_.store.budget = 1;  // a read brings little, so the scan pauses
    }
    /// A stream of a vBucket with kItems stored documents.
    std::shared_ptr<ActiveStream> streamOf(uint16_t vb) {
        const BlobPtr value = Blob::create(std::string(1000, 'x'));
        for (int i = 0; i < kItems; ++i) {
            node_.managers[vb]->queueDirty(
                    Item::create(Vbid{vb}, ItemOp::Mutation, "k" + std::to_string(i), {}, value),
                    Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
        }
        node_.persist(Vbid{vb});
        streams_.push_back(node_.stream(Vbid{vb}));
        return streams_.back();
    }
    /// A stream of the next vBucket, which has kItems stored documents.
    std::shared_ptr<ActiveStream> newStream(StreamRequest request = {}) {
        request.vbid = Vbid{++vb_};
        streamOf(vb_);
        return std::make_shared<ActiveStream>(request, "another", node_.managers[vb_]->cursors(),
                                              node_.store);
    }
    /// The same, whose scan was given back after it had read less than kUnread documents.
    std::shared_ptr<ActiveStream> halfReadStream(const StreamRequest& request = {}) {
        auto stream = newStream(request);
        stream->runBackfill();
        EXPECT_TRUE(stream->giveScanBack());
        EXPECT_LT(stream->stats().lastRead, Seqno{kUnread});
        return stream;
    }
    /// Stores new versions of some documents of that vBucket.
    void overwrite(int from, int to) {
        for (int i = from; i < to; ++i) {
            node_.write(Vbid{vb_}, "k" + std::to_string(i));
        }
        node_.persist(Vbid{vb_});
    }
    /// Expects that a client has all documents wherever the markers tell it that it is consistent,
    /// and that it is consistent at the end.
    static void expectAllAtConsistentPoints(const std::vector<Message>& messages) {
        std::set<std::string> keys;
        Seqno consistent{};
        Seqno end{};
        const auto claim = [&](Seqno seqno) {
            if (seqno > std::exchange(consistent, seqno)) {
                EXPECT_EQ(keys.size(), static_cast<size_t>(kItems)) << "at " << seqno.get();
            }
        };
        for (const auto& message : messages) {
            if (message.kind == MessageKind::SnapshotMarker) {
                claim(message.start);
                end = message.end;
            } else if (message.item) {
                keys.emplace(message.item->key());
                if (message.item->seqno() == end) {
                    claim(end);
                }
            }
        }
        EXPECT_EQ(consistent, end);
    }
    void run(TaskTime now) { watch_.run(streams_, now); }
    static bool isOpen(const ActiveStream& stream) { return stream.scanSight().number != 0; }
    /// Sends and reads until nothing comes.
    static std::vector<Message> finish(ActiveStream& stream) {
        std::vector<Message> got;
        for (int idle = 0; idle < 3;) {
            StreamNeeds needs{};
            if (auto message = stream.next(needs, ListWhilePending::No)) {
                got.push_back(std::move(*message));
                idle = 0;
            } else {
                stream.runBackfill();
                stream.takeSnapshot();
                ++idle;
            }
        }
        return got;
    }
    /// The same for a stream that ends by itself: where its client is consistent, it has
    /// everything.
    std::vector<Message> finishOk(ActiveStream& stream) {
        auto got = finish(stream);
        EXPECT_EQ(got.back().kind, MessageKind::StreamEnd);
        EXPECT_EQ(EndStatus{got.back().detail}, EndStatus::Ok);
        expectAllAtConsistentPoints(got);
        return got;
    }

    Node<Producer> node_;
    uint16_t vb_{0};
    ScanWatch watch_{node_.store, {.idleSeconds = 30, .ageSeconds = 60}};
    ScanWatch::Streams streams_;
};

TEST_F(ScanWatchTest, AnIdleScanIsClosedAndItsStreamContinues) {
    const auto stream = streamOf(0);
    stream->runBackfill();
    ASSERT_TRUE(isOpen(*stream));
    run(1s);
    run(30s);
    EXPECT_TRUE(isOpen(*stream));
    EXPECT_EQ(watch_.stats().open, 1U);
    EXPECT_EQ(watch_.stats().oldest, 29s);
    run(31s);
    EXPECT_FALSE(isOpen(*stream));
    EXPECT_EQ(watch_.stats().open, 0U);
    EXPECT_EQ(watch_.stats().closed, 1U);
    EXPECT_EQ(stream->stats().scansGivenBack, 1U);

    const auto got = finish(*stream);
    EXPECT_EQ(documents(got, Vbid{0}).size(), static_cast<size_t>(kItems));
    EXPECT_EQ(markers(got), (Ranges{{0, kItems}})) << "it is the same snapshot";
    EXPECT_EQ(node_.store.opened, 2U);
}

TEST_F(ScanWatchTest, AnActiveScanStaysOpenUntilItIsOld) {
    const auto stream = streamOf(0);
    for (auto now = TaskTime(1s); now < 61s; now += 10s) {
        StreamNeeds needs{};
        while (stream->next(needs, ListWhilePending::No)) {
        }
        stream->runBackfill();
        ASSERT_TRUE(isOpen(*stream));
        run(now);
        EXPECT_TRUE(isOpen(*stream)) << now.count();
    }
    run(61s);
    EXPECT_FALSE(isOpen(*stream));
}

TEST_F(ScanWatchTest, WhileOthersWaitForASlotAnIdleScanIsClosedSoon) {
    node_.store.slots().setMost(1);
    const auto first = streamOf(0);
    const auto second = streamOf(1);
    EXPECT_TRUE(first->runBackfill());
    run(1s);
    EXPECT_FALSE(second->runBackfill()) << "there is no slot";
    run(3s);
    EXPECT_FALSE(isOpen(*first));
    EXPECT_TRUE(second->runBackfill());
    EXPECT_TRUE(isOpen(*second));
}

TEST_F(ScanWatchTest, TheOldestAreClosedUntilLittleIsPinned) {
    std::vector<std::shared_ptr<ActiveStream>> made;
    for (uint16_t vb = 0; vb < 3; ++vb) {
        made.push_back(streamOf(vb));
        made.back()->runBackfill();
        run(TaskTime(1s) * (vb + 1));
    }
    node_.store.pinnedBytes = [this] { return node_.store.slots().taken() * 700; };
    run(4s);
    EXPECT_FALSE(isOpen(*made[0]));
    EXPECT_FALSE(isOpen(*made[1]));
    EXPECT_TRUE(isOpen(*made[2])) << "1000 bytes may be pinned";
    EXPECT_EQ(watch_.stats().pinned, 700U);
}

TEST_F(ScanWatchTest, AnEndedStreamHoldsNoScan) {
    const auto stream = streamOf(0);
    stream->runBackfill();
    stream->end(EndStatus::StateChanged, false);
    EXPECT_FALSE(isOpen(*stream));
    EXPECT_EQ(node_.store.slots().taken(), 0U);
}

TEST_F(ScanWatchTest, AProducersBackfillsTakeTurnsIfItMayOpenOne) {
    node_.store.slots().setMost(1);
    for (uint16_t vb = 0; vb < 3; ++vb) {
        streamOf(vb);
    }
    const auto got = node_.drain();
    for (uint16_t vb = 0; vb < 3; ++vb) {
        EXPECT_EQ(documents(got, Vbid{vb}).size(), static_cast<size_t>(kItems)) << vb;
    }
}

TEST_F(ScanWatchTest, AClientFromNothingMissesNoDeletionPurgedDuringItsScan) {
    const auto stream = streamOf(0);
    stream->runBackfill();
    ASSERT_TRUE(stream->giveScanBack());
    node_.store.purgedSeqno = Seqno{kItems};
    const auto got = finish(*stream);
    EXPECT_EQ(documents(got, Vbid{0}).size(), static_cast<size_t>(kItems));
    EXPECT_NE(stream->state(), StreamState::Dead);
}

TEST_F(ScanWatchTest, AResumedClientRollsBackWhenDeletionsAheadOfItArePurged) {
    streamOf(0);
    const auto resumed =
            std::make_shared<ActiveStream>(StreamRequest{.vbid = Vbid{0}, .start = Seqno{5}},
                                           "resumed", node_.managers[0]->cursors(), node_.store);
    resumed->runBackfill();
    ASSERT_TRUE(resumed->giveScanBack());
    node_.store.purgedSeqno = Seqno{kItems};
    const auto got = finish(*resumed);
    ASSERT_EQ(got.back().kind, MessageKind::StreamEnd);
    EXPECT_EQ(EndStatus{got.back().detail}, EndStatus::Rollback);
}

TEST_F(ScanWatchTest, AStreamIsConsistentOnlyWithWhatMovedAheadOfItsReplacedScan) {
    for (const int first : {0, 60, kItems - 1, kUnread}) {
        const auto stream = halfReadStream();
        overwrite(first, kItems);
        const auto got = finish(*stream);
        expectAllAtConsistentPoints(got);
        const auto high = static_cast<uint64_t>(2 * kItems - first);
        EXPECT_EQ(markers(got).back(), (std::pair<uint64_t, uint64_t>{0, high})) << first;
        EXPECT_EQ(documents(got, Vbid{vb_}).back().first, high) << first;
    }
}

TEST_F(ScanWatchTest, AScanThatIsReplacedAgainAndAgainPromisesNothingThatIsMissing) {
    const auto stream = halfReadStream();
    std::vector<Message> got;
    for (int round = 0; round < 20; ++round) {
        overwrite(kItems - 5 * (round + 1), kItems - 5 * round);
        StreamNeeds needs{};
        while (auto message = stream->next(needs, ListWhilePending::No)) {
            got.push_back(std::move(*message));
        }
        stream->runBackfill();
        stream->giveScanBack();
    }
    for (auto& message : finish(*stream)) {
        got.push_back(std::move(message));
    }
    expectAllAtConsistentPoints(got);
    EXPECT_EQ(documents(got, Vbid{vb_}).back().first, 2 * kItems);
}

TEST_F(ScanWatchTest, AStreamThatEndsByItselfSendsWhatMovedAheadOfItsReplacedScan) {
    for (const bool diskOnly : {false, true}) {
        const auto stream = halfReadStream({.end = Seqno{kItems}, .diskOnly = diskOnly});
        overwrite(60, 70);
        const auto got = finishOk(*stream);
        EXPECT_EQ(documents(got, Vbid{vb_}).back().first, kItems + 10U) << diskOnly;
    }
}

TEST_F(ScanWatchTest, AStreamThatEndsByItselfSendsWhatMovedBeforeItsScan) {
    for (const bool diskOnly : {false, true}) {
        const auto stream = newStream({.end = Seqno{kItems}, .diskOnly = diskOnly});
        overwrite(60, 70);
        const auto got = finishOk(*stream);
        EXPECT_EQ(markers(got), (Ranges{{0, kItems + 10}})) << diskOnly;
    }
}

}  // namespace
}  // namespace kv::dcp
