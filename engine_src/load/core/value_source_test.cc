#include "load/core/value_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace kv::load::value_source_test {
namespace {

using Body = std::vector<std::uint8_t>;

Body made(const ValueSource& values, std::uint32_t size, std::uint64_t number,
          std::uint64_t random) {
    Body body(size);
    values.write(body.data(), size, ValueSource::wordFor(number, random));
    return body;
}

TEST(ValueSource, ABodyIdentifiesItsKey) {
    for (const auto kind : {ValueSource::Kind::kBinary, ValueSource::Kind::kJson}) {
        const ValueSource values(kind, 30, 300, 7);
        Random random(1);
        for (std::uint32_t size = 30; size <= 300; ++size) {
            const auto body = made(values, size, size, random.next());
            EXPECT_TRUE(values.holds(body, size)) << size;
            EXPECT_FALSE(values.holds(body, size + 1)) << size;
        }
    }
}

TEST(ValueSource, AnyWrongByteIsSeen) {
    for (const auto kind : {ValueSource::Kind::kBinary, ValueSource::Kind::kJson}) {
        const ValueSource values(kind, 64, 64, 7);
        const auto body = made(values, 64, 5, 99);
        ASSERT_TRUE(values.holds(body, 5));
        for (std::size_t i = 0; i < body.size(); ++i) {
            auto wrong = body;
            wrong[i] = static_cast<std::uint8_t>(wrong[i] ^ 0x80U);
            EXPECT_FALSE(values.holds(wrong, 5)) << i;
        }
    }
}

TEST(ValueSource, SizesThatAreNeverWrittenAreWrong) {
    const ValueSource values(ValueSource::Kind::kBinary, 20, 40, 7);
    const ValueSource wide(ValueSource::Kind::kBinary, 0, 100, 7);
    EXPECT_FALSE(values.holds(made(wide, 19, 5, 1), 5));
    EXPECT_TRUE(values.holds(made(wide, 20, 5, 1), 5));
    EXPECT_TRUE(values.holds(made(wide, 40, 5, 1), 5));
    EXPECT_FALSE(values.holds(made(wide, 41, 5, 1), 5));
}

TEST(ValueSource, BodiesTooShortForAWordAreComparedInPart) {
    const ValueSource values(ValueSource::Kind::kBinary, 0, 8, 7);
    for (std::uint32_t size = 0; size <= 8; ++size) {
        EXPECT_TRUE(values.holds(made(values, size, 5, 1), 5)) << size;
    }
    EXPECT_FALSE(values.holds(made(values, 7, 5, 1), 6));
    const ValueSource json(ValueSource::Kind::kJson, 11, 40, 7);
    for (std::uint32_t size = 11; size <= 40; ++size) {
        EXPECT_TRUE(json.holds(made(json, size, 5, 1), 5)) << size;
    }
}

TEST(ValueSource, LognormalSizesHaveTheirMiddleBetweenTheLimitsByRatio) {
    const ValueSource values(ValueSource::Kind::kBinary, 64, 4096, 7,
                             ValueSource::Sizes::kLognormal);
    Random random(1);
    std::vector<std::uint32_t> sizes(20000);
    for (auto& size : sizes) {
        size = values.drawSize(random);
    }
    std::sort(sizes.begin(), sizes.end());
    EXPECT_GE(sizes.front(), 64U);
    EXPECT_LE(sizes.back(), 4096U);
    EXPECT_NEAR(sizes[10000], 512, 20);  // 64 * 8 = 4096 / 8
    // The limits are three standard deviations from there, so that one is a factor of 2.
    EXPECT_NEAR(sizes[3173], 256, 15);
    EXPECT_NEAR(sizes[16827], 1024, 50);
    EXPECT_GT(std::set(sizes.begin(), sizes.end()).size(), 1000U);
}

TEST(ValueSource, UniformSizesReachBothLimits) {
    const ValueSource values(ValueSource::Kind::kBinary, 3, 6, 7);
    Random random(1);
    std::set<std::uint32_t> sizes;
    for (int i = 0; i < 1000; ++i) {
        sizes.insert(values.drawSize(random));
    }
    EXPECT_EQ(sizes, (std::set<std::uint32_t>{3, 4, 5, 6}));
}

}  // namespace
}  // namespace kv::load::value_source_test
