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

    Node<Producer> node_;
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

TEST_F(ScanWatchTest, MutationsAfterTheViewComeAfterIt) {
    const auto stream = streamOf(0);
    stream->runBackfill();
    ASSERT_TRUE(stream->giveScanBack());
    node_.write(Vbid{0}, "k3");  // a new version, whether the old one was read or not
    node_.persist(Vbid{0});
    const auto got = finish(*stream);
    const auto found = documents(got, Vbid{0});
    EXPECT_EQ(found.back(), (std::pair<uint64_t, std::string>{kItems + 1, "k3"}));
    EXPECT_EQ(markers(got).front(), (std::pair<uint64_t, uint64_t>{0, kItems}));
}

}  // namespace
}  // namespace kv::dcp
