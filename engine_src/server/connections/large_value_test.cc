// Large values that are read from the socket into their Blob, and sent from there.
#include "server/commands/op_target.h"
#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::chrono_literals;

TEST_F(ServerTest, ALargeValueIsReadIntoItsBlobAndFreedWhenItsClientLeaves) {
    start();
    auto& memory = bucket_->memory();
    auto client = connect();
    constexpr size_t kSize = 1 << 20;
    client.send(setBytes("k", std::string(kSize, 'a')) + getBytes("k"));
    ASSERT_EQ(client.receive(2).size(), 2U);
    const size_t before = memory.precise();
    const auto bytes = setBytes("k", std::string(kSize, 'b'));
    {
        auto leaving = connect();
        leaving.send(std::string_view(bytes).substr(0, kSize / 2));
        EXPECT_TRUE(eventually([&] { return memory.precise() >= before + kSize; }))
                << "the bucket is charged for it";
        EXPECT_TRUE(eventually([&] { return context().buffers.held() >= kSize; }))
                << "and it counts among what connections hold";
    }
    EXPECT_TRUE(eventually([&] { return memory.precise() == before; }));
    EXPECT_TRUE(eventually([&] { return context().buffers.held() < 20'000; }));
    client.send(getBytes("k"));
    EXPECT_TRUE(client.receive(1).at(0).value == std::string(kSize, 'a')) << "nothing was changed";

    // In pieces, with other requests right behind it.
    for (size_t at = 0; at < bytes.size(); at += 100'000) {
        client.send(std::string_view(bytes).substr(at, 100'000));
        std::this_thread::sleep_for(1ms);
    }
    client.send(getBytes("k") + getBytes("k"));
    const auto answers = client.receive(3);
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_TRUE(answers[2].value == std::string(kSize, 'b'));
}

TEST_F(ServerTest, ALargeValueThatStopsComingEndsItsConnection) {
    start({.idlePartialSeconds = 1});
    const size_t before = bucket_->memory().precise();
    auto stalled = connect();
    stalled.send(setBytes("k", std::string(1 << 20, 'x')).substr(0, 300'000));
    EXPECT_TRUE(stalled.atEnd());
    EXPECT_EQ(sum(&FrontEndStats::overdueCloses), 1U);
    EXPECT_TRUE(eventually([&] { return bucket_->memory().precise() <= before; }));
}

TEST_F(ServerTest, OthersAreServedBetweenManyLargeAnswers) {
    start({}, nullptr, 1);
    const auto vbucketOf = [this](const std::string& key) {
        return vbucketOfKey(key, bucket_->vbucketCount());
    };
    const auto keyOutside = [&](const std::string& key) {
        for (int i = 0;; ++i) {
            std::string other = key + std::to_string(i);
            if (vbucketOf(other) != vbucketOf("held")) {
                return other;
            }
        }
    };
    const std::string large = keyOutside("large");
    const std::string mark = keyOutside("mark");
    auto asking = connect();
    auto other = connect();
    asking.send(setBytes(large, std::string(100'000, 'v')));
    ASSERT_EQ(asking.receive(1).size(), 1U);
    std::string requests = setBytes("held", "v");
    constexpr size_t kAnswers = 20;
    for (size_t i = 0; i < kAnswers; ++i) {
        requests += getBytes(large);
    }
    requests += getBytes(mark);
    const uint64_t before = sum(&FrontEndStats::bytesRead);
    {
        // The first request keeps the thread waiting until both connections have sent all.
        const HashIndex::Guard held = bucket_->vbucket(vbucketOf("held")).hashTable().lock("held");
        asking.send(requests);
        ASSERT_TRUE(hasRead(before + requests.size()));
        other.send(setBytes(mark, "set"));
    }
    const auto answers = asking.receive(kAnswers + 2);
    ASSERT_EQ(answers.size(), kAnswers + 2);
    EXPECT_EQ(answers.back().value, "set") << "the other one's request came first";
}

TEST_F(ServerTest, LargeValuesInAPipelineAreAnsweredInOrder) {
    start();
    auto client = connect();
    std::string pipeline;
    std::vector<std::string> values;
    for (uint32_t i = 0; i < 8; ++i) {
        // From values that fit into one read to values that together exceed a turn.
        values.emplace_back(50'000 + i * 120'001, static_cast<char>('a' + i));
        pipeline += setBytes("k" + std::to_string(i), values.back(), 3 * i);
        pipeline += i % 3 == 0 ? getBytes("none", 3 * i + 1) : std::string();
        pipeline += i % 2 == 0 ? getBytes("k" + std::to_string(i / 2), 3 * i + 2) : std::string();
    }
    const auto expected = [&values](const std::vector<Answer>& answers) {
        ASSERT_EQ(answers.size(), 8U + 3 + 4);
        uint32_t last = 0;
        for (const Answer& answer : answers) {
            EXPECT_GE(answer.opaque, last);
            last = answer.opaque;
            const uint32_t i = answer.opaque / 3;
            EXPECT_EQ(answer.status,
                      answer.opaque % 3 == 1 ? Status::kKeyEnoent : Status::kSuccess);
            if (answer.opaque % 3 == 2) {
                EXPECT_TRUE(answer.value == values[i / 2]) << i;
            }
        }
    };
    client.send(pipeline);
    expected(client.receive(15));
    client.send(pipeline + pipeline);
    auto both = client.receive(30);
    ASSERT_EQ(both.size(), 30U);
    expected({both.begin(), both.begin() + 15});
    expected({both.begin() + 15, both.end()});
}

TEST_F(ServerTest, LargeValuesMayBeCutAnywhere) {
    start({.readBufferBytes = 128}, nullptr, 1);  // values are larger than this
    auto client = connect();
    const std::string first(200, 'a');
    const std::string second(150, 'b');
    const auto bytes = setBytes("first", first) + setBytes("second", second) + getBytes("first") +
                       getBytes("second");
    uint64_t read = 0;
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
        client.send(std::string_view(bytes).substr(0, cut));
        ASSERT_TRUE(hasRead(read + cut)) << cut;
        client.send(std::string_view(bytes).substr(cut));
        read += bytes.size();
        const auto answers = client.receive(4);
        ASSERT_EQ(answers.size(), 4U) << cut;
        ASSERT_EQ(answers[2].value, first) << cut;
        ASSERT_EQ(answers[3].value, second) << cut;
    }
}

TEST_F(ServerTest, LargeValuesAreAnsweredAfterTheClientClosesItsHalf) {
    start();
    const auto bytes = setBytes("k", std::string(300'000, 'x'));
    for (int round = 0; round < 20; ++round) {
        auto client = connect();
        client.send(bytes + bytes);
        client.endSending();
        EXPECT_EQ(client.receive(2).size(), 2U);
        EXPECT_TRUE(client.atEnd());
    }
}

TEST_F(ServerTest, AFlushInTheMiddleOfALargeValueComesBeforeIt) {
    start();
    auto client = connect();
    auto other = connect();
    const auto bytes = setBytes("k", std::string(300'000, 'x'));
    client.send(bytes);
    ASSERT_EQ(client.receive(1).size(), 1U);
    client.send(std::string_view(bytes).substr(0, 200'000));
    ASSERT_TRUE(hasRead(bytes.size() + 200'000));
    other.send(Frame{.opcode = Opcode::kFlush}.bytes() + getBytes("k"));
    const auto flushed = other.receive(2);
    ASSERT_EQ(flushed.size(), 2U);
    EXPECT_EQ(flushed[0].status, Status::kSuccess);
    EXPECT_EQ(flushed[1].status, Status::kKeyEnoent);
    client.send(std::string_view(bytes).substr(200'000));
    ASSERT_EQ(client.receive(1).size(), 1U);
    other.send(getBytes("k"));
    EXPECT_TRUE(other.receive(1).at(0).value == std::string(300'000, 'x'));
}

TEST_F(ServerTest, ALargeValueThatDoesNotFitTheQuotaIsRefusedAndTheNextIsRead) {
    start();
    auto client = connect();
    const size_t quota = bucket_->memory().quota();
    bucket_->setQuota(bucket_->memory().precise() + 200'000);
    const auto bytes = setBytes("k", std::string(1'000'000, 'x'));
    client.send(bytes + bytes + getBytes("k"));
    const auto refused = client.receive(3);
    ASSERT_EQ(refused.size(), 3U);
    for (const auto status : {refused[0].status, refused[1].status}) {
        EXPECT_TRUE(status == Status::kEnomem || status == Status::kEtmpfail) << toString(status);
    }
    EXPECT_EQ(refused[2].status, Status::kKeyEnoent);
    bucket_->setQuota(quota);
    client.send(bytes + bytes + getBytes("k"));
    const auto stored = client.receive(3);
    ASSERT_EQ(stored.size(), 3U);
    EXPECT_EQ(stored[0].status, Status::kSuccess);
    EXPECT_TRUE(stored[2].value == std::string(1'000'000, 'x'));
}

TEST_F(ServerTest, ALargeValueIsSentAsReadEvenIfTheDocumentChanges) {
    start();
    auto reader = connect(64 << 10);
    auto writer = connect();
    for (auto* client : {&reader, &writer}) {
        client->send(Frame{.opcode = Opcode::kHello, .key = "t"}.bytes());
        ASSERT_EQ(client->receive(1).size(), 1U);
    }
    constexpr size_t kSize = 16 << 20;  // more than the sockets' buffers hold
    writer.send(setBytes("big", std::string(kSize, 'a')) + setBytes("small", "s"));
    ASSERT_EQ(writer.receive(2).size(), 2U);
    reader.send(getBytes("big") + getBytes("small") + getBytes("big"));
    ASSERT_TRUE(eventually([this] { return context().buffers.held() > kSize / 4; }));
    writer.send(setBytes("big", std::string(kSize, 'b')));
    ASSERT_EQ(writer.receive(1).size(), 1U);
    const auto answers = reader.receive(3);
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_TRUE(answers[0].value == std::string(kSize, 'a'));
    EXPECT_EQ(answers[1].value, "s");
    EXPECT_TRUE(answers[2].value == std::string(kSize, 'a') ||
                answers[2].value == std::string(kSize, 'b'));
    EXPECT_TRUE(eventually([&] { return context().buffers.held() < 100'000; }));
    EXPECT_LT(bucket_->memory().precise(), kSize + (2 << 20))
            << "nobody holds the old value any more";
}

TEST_F(ServerTest, ClientsThatDoNotReadKeepFewOldVersions) {
    start();
    constexpr size_t kSize = 1 << 20;
    constexpr size_t kDocuments = 3;
    auto writer = connect();
    const auto overwrite = [&](char letter) {
        std::string sets;
        for (size_t i = 0; i < kDocuments; ++i) {
            sets += setBytes("k" + std::to_string(i), std::string(kSize - 100, letter));
        }
        writer.send(sets);
        EXPECT_EQ(writer.receive(kDocuments).size(), kDocuments);
    };
    overwrite('a');
    const size_t before = bucket_->memory().precise();
    std::vector<Client> readers;
    std::string gets;
    for (size_t i = 0; i < 8; ++i) {  // twice as much as a client may leave unread
        gets += getBytes("k" + std::to_string(i % kDocuments));
    }
    for (char letter = 'a'; letter < 'a' + 16; ++letter) {
        overwrite(letter);
        readers.push_back(connect(4096));
        readers.back().send(gets);
        // A blocked client reads nothing more, and all that it will receive first has been read.
        ASSERT_TRUE(eventually([&] { return sum(&FrontEndStats::slowReaders) == readers.size(); }));
    }
    overwrite('z');
    const size_t most = bucket_->memory().quota() / 20;
    EXPECT_LT(bucket_->memory().precise(), before + most + (1 << 20));
    EXPECT_LE(context().unsentValues.load(), most);
    for (size_t number = 0; number < readers.size(); ++number) {
        const auto answers = readers[number].receive(kDocuments);
        ASSERT_EQ(answers.size(), kDocuments);
        EXPECT_TRUE(answers.back().value ==
                    std::string(kSize - 100, static_cast<char>('a' + number)));
    }
    readers.clear();
    EXPECT_TRUE(eventually([this] { return context().unsentValues.load() == 0; }));
}

}  // namespace
}  // namespace kv::server
