#include "server/connections/output.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace kv::server {
namespace {

std::string content(const Output& output) {
    std::array<iovec, 64> pieces{};
    std::string text;
    const size_t count = output.gather(pieces);
    for (size_t i = 0; i < count; ++i) {
        text.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    }
    return text;
}

class OutputTest : public testing::Test {
  protected:
    void append(Output& output, std::string_view text) { output.append(protocol::asBytes(text)); }
    void share(Output& output, std::string_view text) {
        const BucketMemoryGuard guard(memory_);
        output.share(Blob::create(text), memory_);
    }

    BucketMemory memory_{1 << 30};
    Output output_;
};

TEST_F(OutputTest, ContentIsInTheOrderOfAppending) {
    append(output_, "head ");
    share(output_, "value");
    share(output_, " again");
    append(output_, " tail");
    EXPECT_EQ(output_.size(), 21U);
    EXPECT_EQ(content(output_), "head value again tail");
    std::array<iovec, 2> few{};
    EXPECT_EQ(output_.gather(few), 2U) << "no more than there is room for";
}

TEST_F(OutputTest, ASharedValueLivesUntilItIsSent) {
    share(output_, std::string(100'000, 'x'));
    EXPECT_GE(memory_.precise(), 100'000);
    output_.consume(99'999);
    EXPECT_GE(memory_.precise(), 100'000);
    EXPECT_EQ(output_.size(), 1U);
    output_.consume(1);
    EXPECT_TRUE(output_.empty());
    EXPECT_EQ(memory_.precise(), 0);
    share(output_, std::string(100'000, 'x'));
    output_.clear();
    EXPECT_EQ(memory_.precise(), 0);
}

TEST_F(OutputTest, AValueThatIsNearlySentIsHeldAsAWhole) {
    share(output_, std::string(100'000, 'x'));
    output_.consume(99'999);
    EXPECT_EQ(output_.pinned(), 100'000U);
    EXPECT_GE(output_.held(), 100'000U);
    output_.consume(1);
    EXPECT_EQ(output_.pinned(), 0U);
}

TEST_F(OutputTest, CopiesFreeTheSharedValues) {
    append(output_, "head ");
    share(output_, "value");
    share(output_, std::string(100'000, 'x'));
    append(output_, " tail");
    output_.consume(7);
    const std::string before = content(output_);
    output_.copyShared();
    EXPECT_EQ(content(output_), before);
    EXPECT_EQ(output_.size(), before.size());
    EXPECT_EQ(output_.pinned(), 0U);
    EXPECT_EQ(memory_.precise(), 0);
    share(output_, " again");
    EXPECT_EQ(content(output_), before + " again");
}

TEST_F(OutputTest, TheUnsentRestIsKept) {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        Output kept;
        std::string expected;
        for (int batch = 0; batch < 4; ++batch) {
            Output fresh;
            std::string text;
            for (int i = static_cast<int>(random() % 6); i > 0; --i) {
                const std::string piece(random() % 9, static_cast<char>('a' + random() % 26));
                random() % 2 == 0 ? append(fresh, piece) : share(fresh, piece);
                text += piece;
            }
            ASSERT_EQ(content(fresh), text);
            const size_t sent = text.empty() ? 0 : random() % (text.size() + 1);
            if (expected.empty()) {
                fresh.consume(sent);
                text.erase(0, sent);
            }
            kept.take(fresh);
            expected += text;
            ASSERT_TRUE(fresh.empty());
            ASSERT_EQ(content(kept), expected);
            ASSERT_EQ(kept.size(), expected.size());
            if (random() % 8 == 0) {
                kept.copyShared();
                ASSERT_EQ(content(kept), expected);
            }
            const size_t later = expected.empty() ? 0 : random() % (expected.size() + 1);
            kept.consume(later);
            expected.erase(0, later);
            ASSERT_EQ(content(kept), expected);
        }
    }
    EXPECT_EQ(memory_.precise(), 0);
}

}  // namespace
}  // namespace kv::server
