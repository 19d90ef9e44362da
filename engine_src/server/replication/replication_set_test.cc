#include "server/replication/replication_set.h"

#include <gtest/gtest.h>

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
    const auto json = nlohmann::json{{"rev", revision},
                                     {"nodesExt", {{{"thisNode", true}}, nlohmann::json::object()}},
                                     {"vBucketServerMap",
                                      {{"serverList", {"127.0.0.1:1", "127.0.0.1:2"}},
                                       {"vBucketMap", {{active, 1 - active}, {0, 1}}}}}};
    return std::make_shared<const ClusterConfig>(ClusterConfig::parse(json.dump(), 2));
}

/// Waits until the set reports `sources` sources.
bool becomes(const ReplicationSet& set, const std::string& sources) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (set.stats().at(0).second != sources) {
        if (std::chrono::steady_clock::now() > until) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
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

/// An executor that has no memory for the first task.
class ShortOfMemory final : public Executor {
  public:
    TaskPtr schedule(std::string name, TaskPool pool, TaskTime delay,
                     std::function<TaskResult()> function) override {
        if (std::exchange(short_, false)) {
            throw std::bad_alloc();
        }
        return real_.schedule(std::move(name), pool, delay, std::move(function));
    }
    void wake(const TaskPtr& task) override { real_.wake(task); }
    void snooze(const TaskPtr& task, TaskTime delay) override { real_.snooze(task, delay); }
    void cancel(const TaskPtr& task) override { real_.cancel(task); }
    [[nodiscard]] std::vector<TaskStats> stats() const override { return real_.stats(); }
    [[nodiscard]] TaskTime now() const override { return real_.now(); }

  private:
    bool short_{true};
    FakeExecutor real_;
};

TEST(ReplicationSet, AnAllocationFailureIsRetried) {
    const auto bucket = testing_support::makeBucket(2);
    ShortOfMemory executor;
    ReplicationSet set(*bucket, executor, {});
    EXPECT_TRUE(set.follow(configOf(1, 1)));
    EXPECT_TRUE(becomes(set, "1"));
    EXPECT_TRUE(set.follow(configOf(2, 0)));
    EXPECT_TRUE(becomes(set, "0"));
}

}  // namespace
}  // namespace kv::server
