// FLUSH and DEL_VBUCKET on a whole server: the front-end threads keep serving however long they
// take.
#include "server/commands/bucket_job.h"

#include <memory>

#include "server/commands/op_target.h"
#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

std::string flushBytes(uint32_t opaque = 0) {
    return Frame{.opcode = Opcode::kFlush, .opaque = opaque}.bytes();
}

class BucketJobTest : public ServerTest {
  protected:
    void SetUp() override { start({}, nullptr, 1); }
    /// While the guard is held, nothing that visits all documents of vBucket 0 can finish.
    std::unique_ptr<HashIndex::Guard> holdUp() {
        return std::make_unique<HashIndex::Guard>(
                bucket_->vbucket(Vbid{0}).hashTable().lock("held"));
    }
    /// Returns a key of another vBucket than 0, which is the one that a client without a choice
    /// asks for.
    std::string otherKey() { return keyOutside(Vbid{0}); }
    std::string keyOutside(Vbid vbid) {
        for (int i = 0;; ++i) {
            std::string key = "k" + std::to_string(i);
            if (vbucketOfKey(key, bucket_->vbucketCount()) != vbid) {
                return key;
            }
        }
    }
};

TEST_F(BucketJobTest, OtherConnectionsOfTheThreadAreServedWhileABucketIsFlushed) {
    auto asking = connect();
    auto other = connect();
    const std::string key = otherKey();
    auto held = holdUp();
    asking.send(flushBytes());
    other.send(setBytes(key, "v") + getBytes(key));
    EXPECT_EQ(other.receive(2).size(), 2U);
    held.reset();
    EXPECT_EQ(asking.receive(1).at(0).status, Status::kSuccess);
    other.send(getBytes(key));
    EXPECT_EQ(other.receive(1).at(0).status, Status::kKeyEnoent);
}

TEST_F(BucketJobTest, ConnectionsAreServedWhileAVBucketIsDeleted) {
    auto asking = connect();
    auto other = connect();
    const std::string key = otherKey();
    bucket_->setVBucketState(Vbid{0}, VbState::Dead, OpTime::now());
    auto held = holdUp();
    asking.send(Frame{.opcode = Opcode::kDelVBucket}.bytes());
    other.send(setBytes(key, "v") + getBytes(key));
    EXPECT_EQ(other.receive(2).size(), 2U);
    held.reset();
    EXPECT_EQ(asking.receive(1).at(0).status, Status::kSuccess);
}

TEST_F(BucketJobTest, ConnectionsAreServedWhileTheKeysOfAVBucketAreListed) {
    auto asking = connect();
    auto other = connect();
    asking.send(setBytes("one", "v"));
    EXPECT_EQ(asking.receive(1).size(), 1U);
    const Vbid vbid = vbucketOfKey("one", bucket_->vbucketCount());
    auto held = std::make_unique<HashIndex::Guard>(bucket_->vbucket(vbid).hashTable().lock("held"));
    asking.send(Frame{.opcode = Opcode::kGetKeys, .key = "a", .vbucket = vbid.get(), .opaque = 7}
                        .bytes() +
                flushBytes(8));
    const std::string key = keyOutside(vbid);
    other.send(setBytes(key, "v") + getBytes(key));
    EXPECT_EQ(other.receive(2).size(), 2U);
    held.reset();
    const auto answers = asking.receive(2);
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0].opaque, 7U);
    EXPECT_EQ(answers[0].value, std::string("\0\3one", 5));
    EXPECT_EQ(answers[1].opaque, 8U);
    EXPECT_TRUE(answers[1].value.empty());
}

TEST_F(BucketJobTest, ConnectionsAreServedWhileARandomDocumentIsSearched) {
    auto asking = connect();
    auto other = connect();
    asking.send(setBytes("one", "value"));
    EXPECT_EQ(asking.receive(1).size(), 1U);
    const Vbid vbid = vbucketOfKey("one", bucket_->vbucketCount());
    auto held = std::make_unique<HashIndex::Guard>(bucket_->vbucket(vbid).hashTable().lock("one"));
    asking.send(Frame{.opcode = Opcode::kGetRandomKey}.bytes());
    const std::string key = keyOutside(vbid);
    other.send(getBytes(key));
    EXPECT_EQ(other.receive(1).size(), 1U);
    held.reset();
    const auto answers = asking.receive(1);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].key, "one");
    EXPECT_EQ(answers[0].value, "value");
    const auto before = bucket_->memory().precise();
    for (int round = 0; round < 50; ++round) {
        asking.send(Frame{.opcode = Opcode::kGetRandomKey}.bytes());
        EXPECT_EQ(asking.receive(1).size(), 1U);
    }
    EXPECT_EQ(bucket_->memory().precise(), before);
}

TEST_F(BucketJobTest, ListsOfKeysKeepNoAdministratorWaiting) {
    const Vbid listed{0};
    const Vbid doomed{1};
    bucket_->setVBucketState(doomed, VbState::Dead, OpTime::now());
    auto held = holdUp();
    const auto request =
            Frame{.opcode = Opcode::kGetKeys, .key = "a", .vbucket = listed.get()}.bytes();
    std::vector<Client> readers;
    for (int i = 0; i < 4; ++i) {
        readers.push_back(connect());
        readers.back().send(request);
    }
    ASSERT_TRUE(hasRead(readers.size() * request.size()));
    auto administrator = connect();
    administrator.send(Frame{.opcode = Opcode::kDelVBucket, .vbucket = doomed.get()}.bytes());
    EXPECT_EQ(administrator.receive(1).at(0).status, Status::kSuccess);
    held.reset();
    for (auto& reader : readers) {
        EXPECT_EQ(reader.receive(1).size(), 1U);
    }
}

TEST_F(BucketJobTest, ThePipelineBehindItIsRunAfterwards) {
    auto client = connect();
    const std::string key = otherKey();
    auto held = holdUp();
    client.send(setBytes(key, "old", 1) + flushBytes(2) + getBytes(key, 3) +
                setBytes(key, "new", 4) + getBytes(key, 5));
    EXPECT_EQ(client.receive(1).at(0).opaque, 1U);
    held.reset();
    const auto answers = client.receive(4);
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].opaque, 2U);
    EXPECT_EQ(answers[0].status, Status::kSuccess);
    EXPECT_EQ(answers[1].status, Status::kKeyEnoent);
    EXPECT_EQ(answers[3].value, "new");
    EXPECT_EQ(sum(&FrontEndStats::flushes), 1U) << "however often it was polled";
}

class CountedJob final : public Job {
  public:
    CountedJob(std::function<void()> work, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), work_(std::move(work)) {}
    void run() noexcept override { work_(); }

  private:
    std::function<void()> work_;
};

TEST(JobThread, AbandonedJobsAreNotRun) {
    std::atomic<int> done{0};
    std::mutex hold;
    JobThread thread("test");
    const auto ask = [&](std::function<void()> work) {
        auto job = std::make_shared<CountedJob>(std::move(work), std::make_shared<Waker>());
        thread.ask(job);
        return job;
    };
    std::unique_lock held(hold);
    std::atomic<bool> begun{false};
    const auto first = ask([&] {
        begun = true;
        const std::lock_guard wait(hold);
    });
    while (!begun) {
        std::this_thread::yield();
    }
    std::vector<std::shared_ptr<CountedJob>> wanted;
    for (int i = 0; i < 1000; ++i) {
        auto job = ask([&done] { ++done; });
        if (i % 100 == 0) {
            wanted.push_back(std::move(job));  // the connections of the other jobs are gone
        }
    }
    held.unlock();
    for (const auto& job : wanted) {
        while (!job->done()) {
            std::this_thread::yield();
        }
    }
    EXPECT_EQ(done, 10);
}

TEST(JobThread, NobodyWaitsForManyJobsOfAnother) {
    std::mutex hold;
    std::unique_lock held(hold);
    JobThread thread("test");
    std::vector<std::shared_ptr<CountedJob>> jobs;
    int many = 0;
    const auto ask = [&](std::string_view requester, std::function<void()> work) {
        jobs.push_back(std::make_shared<CountedJob>(std::move(work), std::make_shared<Waker>()));
        thread.ask(jobs.back(), requester);
    };
    ask("many", [&] { const std::lock_guard wait(hold); });
    for (int i = 0; i < 100; ++i) {
        ask("many", [&] { ++many; });
    }
    int before = 0;
    ask("other", [&] { before = many; });
    held.unlock();
    for (const auto& job : jobs) {
        while (!job->done()) {
            std::this_thread::yield();
        }
    }
    EXPECT_LE(before, 1);
    EXPECT_EQ(many, 100);
}

TEST(JobThread, ParsesClusterConfigs) {
    std::mutex hold;
    std::unique_lock held(hold);
    JobThread thread("test");
    const auto first = std::make_shared<CountedJob>([&] { const std::lock_guard wait(hold); },
                                                    std::make_shared<Waker>());
    thread.ask(first);
    Bench bench;
    bench.server.bucketJobs = &thread;
    const std::string request = Frame{.opcode = Opcode::kSetClusterConfig, .value = "{}"}.bytes();
    EXPECT_EQ(bench.feed(request).stop, Stop::Waiting);
    EXPECT_TRUE(bench.answers().empty()) << "a long one would take long to parse";
    held.unlock();
    while (bench.feed({}).stop == Stop::Waiting) {
        std::this_thread::yield();
    }
    const auto answers = bench.answers();
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].status, Status::kEinval);
    EXPECT_NE(answers[0].value.find("vBucketServerMap"), std::string::npos);
}

TEST_F(BucketJobTest, ItsMemoryIsChargedToNoBucket) {
    auto client = connect();
    const auto flushTwice = [&client] {
        client.send(flushBytes() + flushBytes());
        EXPECT_EQ(client.receive(2).size(), 2U);
    };
    flushTwice();
    const auto before = bucket_->memory().precise();
    for (int round = 0; round < 50; ++round) {
        flushTwice();
    }
    EXPECT_EQ(bucket_->memory().precise(), before);
}

}  // namespace
}  // namespace kv::server
