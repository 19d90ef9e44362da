#include "server/replication/cluster_fence.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "persistence/flip.h"
#include "persistence/store_error.h"
#include "persistence/temp_dir.h"
#include "types/fd.h"

namespace kv::server {
namespace {

/// A node with two vBuckets, which a test can start again; both are active before the fence acts.
class ClusterFenceTest : public testing::Test {
  protected:
    static std::unique_ptr<Bucket> makeBucket() {
        BucketConfig config;
        config.vbuckets = 2;
        return Bucket::createEphemeral(config);
    }
    void start() {
        fence_.reset();  // its node has the file
        bucket_ = makeBucket();
        for (const Vbid vbid : {Vbid{0}, Vbid{1}}) {
            bucket_->setVBucketState(vbid, VbState::Active, OpTime::now());
        }
        inForce_ = std::make_unique<PublishedConfig>(ClusterConfig("default", 2, 11210, "uuid"),
                                                     "uuid");
        fence_ = std::make_unique<ClusterFence>(*bucket_, file());
    }
    std::filesystem::path file() const { return dir_.root() / "data" / "cluster.json"; }
    /// This node is number 0; vBucket 1 is active on node `second`.
    static std::shared_ptr<const ClusterConfig> config(int64_t revision, int second = 0) {
        const auto json = nlohmann::json{
                {"rev", revision},
                {"nodesExt", {{{"thisNode", true}}, nlohmann::json::object()}},
                {"vBucketServerMap",
                 {{"serverList", {"a:1", "b:1"}},
                  {"vBucketMap", {nlohmann::json::array({0}), nlohmann::json::array({second})}}}}};
        return std::make_shared<const ClusterConfig>(ClusterConfig::parse(json.dump(), 2));
    }
    OpStatus publish(int64_t revision, int second = 0) {
        return fence_->publish(config(revision, second), *inForce_);
    }
    VbState state(uint16_t vbucket) const { return bucket_->vbucket(Vbid{vbucket}).state(); }

    const TempDir dir_;
    std::unique_ptr<Bucket> bucket_;
    std::unique_ptr<PublishedConfig> inForce_;
    std::unique_ptr<ClusterFence> fence_;
};

TEST_F(ClusterFenceTest, ANodeThatWasNeverInAClusterServes) {
    start();
    EXPECT_FALSE(fence_->isUp());
    EXPECT_EQ(state(0), VbState::Active);
    EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(ClusterFenceTest, ARestartedNodeServesOnlyUnderItsLastConfigOrANewerOne) {
    start();
    ASSERT_EQ(publish(5), OpStatus::Ok);
    EXPECT_EQ(state(0), VbState::Active);
    start();
    EXPECT_TRUE(fence_->isUp());
    EXPECT_EQ(state(0), VbState::Pending);
    EXPECT_EQ(publish(4), OpStatus::KeyExists);
    EXPECT_EQ(inForce_->current()->version().revision, 1);
    EXPECT_EQ(state(0), VbState::Pending);
    ASSERT_EQ(publish(5), OpStatus::Ok);
    EXPECT_FALSE(fence_->isUp());
    EXPECT_EQ(state(0), VbState::Active);
    EXPECT_EQ(state(1), VbState::Active);
}

TEST_F(ClusterFenceTest, VBucketsThatAnotherNodeServesStayPending) {
    start();
    ASSERT_EQ(publish(5), OpStatus::Ok);
    start();
    ASSERT_EQ(publish(6, 1), OpStatus::Ok);
    EXPECT_EQ(state(0), VbState::Active);
    EXPECT_EQ(state(1), VbState::Pending);
    EXPECT_EQ(fence_->setVBucketState(Vbid{1}, VbState::Active, OpTime::now(),
                                      Bucket::IfBusy::Return),
              OpStatus::Ok);
    EXPECT_EQ(state(1), VbState::Active) << "a manager may order it once the fence is down";
}

TEST_F(ClusterFenceTest, BehindTheFenceAnActiveStateWaitsForTheConfig) {
    start();
    ASSERT_EQ(publish(5), OpStatus::Ok);
    start();
    const auto set = [this](VbState wanted) {
        return fence_->setVBucketState(Vbid{1}, wanted, OpTime::now(), Bucket::IfBusy::Return);
    };
    EXPECT_EQ(set(VbState::Dead), OpStatus::Ok);
    EXPECT_EQ(state(1), VbState::Dead);
    EXPECT_EQ(set(VbState::Active), OpStatus::Ok);
    EXPECT_EQ(state(1), VbState::Pending);
    ASSERT_EQ(publish(6), OpStatus::Ok);
    EXPECT_EQ(state(1), VbState::Active);
}

TEST_F(ClusterFenceTest, ARevisionThatCannotBeStoredIsNotPublished) {
    start();
    std::filesystem::create_directory(file().parent_path());
    // A directory in the place of the temporary file.
    std::filesystem::create_directory(file().string() + ".new");
    EXPECT_EQ(publish(5), OpStatus::TmpFail);
    EXPECT_EQ(inForce_->current()->version().revision, 1);
    std::filesystem::remove(file().string() + ".new");
    EXPECT_EQ(publish(5), OpStatus::Ok);
}

TEST_F(ClusterFenceTest, NobodyWaitsForARevisionThatIsBeingStored) {
    start();
    std::filesystem::create_directory(file().parent_path());
    const std::string pipe = file().string() + ".new";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const Fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
    auto published = std::async(std::launch::async, [this] { return publish(5); });
    pollfd written{reader.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&written, 1, -1), 1);  // next, it opens the pipe to sync it, and waits
    auto other = std::async(std::launch::async, [this] {
        EXPECT_FALSE(fence_->stats().empty());
        return fence_->setVBucketState(Vbid{1}, VbState::Replica, OpTime::now(),
                                       Bucket::IfBusy::Return);
    });
    EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    const Fd writer(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK));
    EXPECT_EQ(published.get(), OpStatus::TmpFail) << "a pipe cannot be synced";
    EXPECT_EQ(other.get(), OpStatus::Ok);
}

TEST_F(ClusterFenceTest, AChangedFileIsAnErrorAndNotTakenAsMissing) {
    start();
    ASSERT_EQ(publish(5), OpStatus::Ok);
    for (uint64_t at = 0, size = std::filesystem::file_size(file()); at < size; ++at) {
        flipBit(file(), at);
        EXPECT_THROW(start(), StoreError) << "byte " << at;
        flipBit(file(), at);
    }
}

TEST_F(ClusterFenceTest, ReportsItsState) {
    start();
    ASSERT_EQ(publish(5), OpStatus::Ok);
    start();
    EXPECT_EQ(fence_->stats(),
              (KeyValues{{"ep_cluster_config_stored", "1:5"}, {"ep_cluster_fence", "up"}}));
}

}  // namespace
}  // namespace kv::server
