// STAT of a whole server: slow groups are collected apart from the front-end threads.
#include "server/stats/stats.h"

#include <atomic>

#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

std::string statBytes(const std::string& group, uint32_t opaque = 0) {
    return Frame{.opcode = Opcode::kStat, .key = group, .opaque = opaque}.bytes();
}

class StatCollectorTest : public ServerTest {
  protected:
    /// Starts a server with one front-end thread and a group `slow` that is not ready before
    /// release().
    void SetUp() override {
        start({}, nullptr, 1, [this](ServerContext& context) {
            context.statSources.emplace_back("slow", [this] {
                ++begun_;
                begun_.notify_all();
                released_.wait(false);
                ++ended_;
                return KeyValues{{"one", "1"}};
            });
        });
    }
    void release() {
        released_ = true;
        released_.notify_all();
    }

    std::atomic<int> begun_{0};
    std::atomic<int> ended_{0};
    std::atomic<bool> released_{false};
};

TEST_F(StatCollectorTest, OtherConnectionsOfTheThreadAreServedDuringACollection) {
    auto asking = connect();
    auto other = connect();
    asking.send(statBytes("slow"));
    begun_.wait(0);
    other.send(setBytes("k", "v") + getBytes("k"));
    EXPECT_EQ(other.receive(2).size(), 2U);
    release();
    EXPECT_EQ(asking.receive(2).size(), 2U);
}

TEST_F(StatCollectorTest, ThePipelineBehindItIsAnsweredInOrder) {
    auto client = connect();
    client.send(setBytes("k", "v", 1) + statBytes("slow", 2) + getBytes("k") +
                statBytes("uuid", 4));
    EXPECT_EQ(client.receive(1).at(0).opaque, 1U);
    begun_.wait(0);
    release();
    const auto answers = client.receive(5);
    ASSERT_EQ(answers.size(), 5U);
    EXPECT_EQ(answers[0].key, "one");
    EXPECT_EQ(answers[1].opaque, 2U);
    EXPECT_TRUE(answers[1].key.empty());
    EXPECT_EQ(answers[2].value, "v");
    EXPECT_EQ(answers[3].key, "uuid");
}

TEST_F(StatCollectorTest, ItsMemoryIsChargedToNoBucket) {
    auto client = connect();
    client.send(setBytes("k", "v"));
    EXPECT_EQ(client.receive(1).size(), 1U);
    const auto used = [this] { return bucket_->memory().precise(); };
    const auto before = used();
    release();
    for (int round = 0; round < 100; ++round) {
        client.send(statBytes("slow"));
        EXPECT_EQ(client.receive(2).size(), 2U);
    }
    EXPECT_EQ(used(), before);
}

/// The caller that stops the server destroys next what the groups read.
TEST_F(StatCollectorTest, AServerThatStopsWaitsForTheGroupAtWorkAndNoOther) {
    auto one = connect();
    auto two = connect();
    one.send(statBytes("slow"));
    begun_.wait(0);
    two.send(getBytes("k") + statBytes("slow"));
    EXPECT_EQ(two.receive(1).size(), 1U);
    server_->requestStop();
    loop_.join();
    std::thread releasing([this] {
        std::this_thread::sleep_for(200ms);
        release();
    });
    server_->stop();
    EXPECT_EQ(ended_, begun_);
    EXPECT_EQ(begun_, 1);
    releasing.join();
    server_.reset();
    EXPECT_TRUE(two.atEnd());
}

TEST_F(ServerTest, ALongAnswerIsHeldInPart) {
    constexpr size_t kFigures = 200'000;
    start({}, nullptr, 1, [](ServerContext& server) {
        server.statSources.emplace_back("long", [] {
            KeyValues values;
            for (size_t i = 0; i < kFigures; ++i) {
                values.emplace_back(std::to_string(i), std::string(100, 'v'));
            }
            return values;
        });
    });
    auto client = connect(64 << 10);
    client.send(Frame{.opcode = Opcode::kStat, .key = "long"}.bytes() + getBytes("none", 7));
    ASSERT_TRUE(eventually([this] { return sum(&FrontEndStats::slowReaders) != 0; }));
    EXPECT_LT(context().buffers.held(), 10U << 20U) << "of 25 MB";
    const auto answers = client.receive(kFigures + 2);
    ASSERT_EQ(answers.size(), kFigures + 2);
    for (size_t i = 0; i < kFigures; ++i) {
        ASSERT_EQ(answers[i].key, std::to_string(i));
    }
    EXPECT_TRUE(answers[kFigures].key.empty());
    EXPECT_EQ(answers[kFigures + 1].opaque, 7U);
    EXPECT_EQ(sum(&FrontEndStats::requests), 2U);
}

}  // namespace
}  // namespace kv::server
