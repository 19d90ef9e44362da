#include "server/replication/replication_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>

#include "executor/fake_executor.h"
#include "executor/thread_executor.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

/// A map of two vBuckets; the first is active on `active` and a replica here.
std::shared_ptr<const ClusterConfig> configOf(int revision, int active) {
    const auto other = nlohmann::json::object();
    const auto json =
            nlohmann::json{{"rev", revision},
                           {"nodesExt", {{{"thisNode", true}}, other, other}},
                           {"vBucketServerMap",
                            {{"serverList", {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}},
                             {"vBucketMap", {{active, active == 0 ? 1 : 0}, {0, 1}}}}}};
    return std::make_shared<const ClusterConfig>(ClusterConfig::parse(json.dump(), 2));
}

bool becomesTrue(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

/// Waits until the set reports `sources` sources.
bool becomes(const ReplicationSet& set, const std::string& sources) {
    return becomesTrue([&] { return set.stats().at(0).second == sources; });
}

TEST(ReplicationSet, AnOlderMapThatArrivesLaterIsNotFollowed) {
    const auto bucket = testing_support::makeBucket(2);
    ThreadExecutor executor({.writers = 1, .auxIo = 1, .nonIo = 1});
    ReplicationSet set(*bucket, executor, {});
    EXPECT_TRUE(set.follow(configOf(3, 1)));
    EXPECT_TRUE(becomes(set, "1"));
    EXPECT_FALSE(set.follow(configOf(2, 0)));
    EXPECT_FALSE(set.follow(configOf(3, 0)));
    EXPECT_EQ(set.stats().at(0).second, "1");
    EXPECT_TRUE(set.follow(configOf(4, 0)));
    EXPECT_TRUE(becomes(set, "0"));
}

/// An executor that counts its tasks; it may have no memory for the first.
class WatchedExecutor final : public Executor {
  public:
    explicit WatchedExecutor(bool shortOfMemory = false) : short_(shortOfMemory) {}

    TaskPtr schedule(std::string name, TaskPool pool, TaskTime delay,
                     std::function<TaskResult()> function) override {
        if (std::exchange(short_, false)) {
            throw std::bad_alloc();
        }
        most_ = std::max(most_.load(), ++present_);
        ++scheduled_;
        return real_.schedule(std::move(name), pool, delay, std::move(function));
    }
    void wake(const TaskPtr& task) override { real_.wake(task); }
    void snooze(const TaskPtr& task, TaskTime delay) override { real_.snooze(task, delay); }
    void cancel(const TaskPtr& task) override {
        real_.cancel(task);
        --present_;
    }
    [[nodiscard]] std::vector<TaskStats> stats() const override { return real_.stats(); }
    [[nodiscard]] TaskTime now() const override { return real_.now(); }

    [[nodiscard]] int scheduled() const { return scheduled_; }
    /// Returns the number of tasks that existed at the same time.
    [[nodiscard]] int most() const { return most_; }

  private:
    bool short_;
    int present_{0};
    std::atomic<int> most_{0};
    std::atomic<int> scheduled_{0};
    FakeExecutor real_;
};

TEST(ReplicationSet, AnAllocationFailureIsRetried) {
    const auto bucket = testing_support::makeBucket(2);
    WatchedExecutor executor(true);
    ReplicationSet set(*bucket, executor, {});
    EXPECT_TRUE(set.follow(configOf(1, 1)));
    EXPECT_TRUE(becomes(set, "1"));
    EXPECT_TRUE(set.follow(configOf(2, 0)));
    EXPECT_TRUE(becomes(set, "0"));
}

TEST(ReplicationSet, AVBucketThatMovesNeverHasTwoSources) {
    const auto bucket = testing_support::makeBucket(2);
    WatchedExecutor executor;
    ReplicationSet set(*bucket, executor, {});
    for (int revision = 1; revision <= 4; ++revision) {
        EXPECT_TRUE(set.follow(configOf(revision, 1 + revision % 2)));
        ASSERT_TRUE(becomesTrue([&] { return executor.scheduled() == revision; }));
    }
    EXPECT_EQ(executor.most(), 1) << "two would apply the same mutations at a time";
}

}  // namespace
}  // namespace kv::server
