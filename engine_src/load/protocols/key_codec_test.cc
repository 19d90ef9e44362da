#include "load/protocols/key_codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "load/core/random.h"

namespace kv::load {
namespace {

TEST(KeyCodec, WritesTheHistoricKeys) {
    EXPECT_EQ(KeyCodec("", 20).text(7), "00000000000000000007");
    EXPECT_EQ(KeyCodec("p-", 20).text(1234567), "p-00000000000001234567");
    EXPECT_EQ(KeyCodec("AB_", 12, "_0").text(42), "AB_000000000042_0");
    EXPECT_EQ(KeyCodec("", 20).text(std::numeric_limits<std::uint64_t>::max()),
              "18446744073709551615");
    EXPECT_EQ(KeyCodec("AB_", 12, "_0").maxNumber(), 999'999'999'999U);
}

// Values of zlib.crc32 in Python, and of libcouchbase's mapping.
TEST(KeyCodec, KnownChecksumsAndVbuckets) {
    EXPECT_EQ(crcOf("123456789"), 0xcbf43926U);
    EXPECT_EQ(vbucketOf(0xcbf43926U, 1024), 0x4bf4 % 1024);
    EXPECT_EQ(vbucketOf(0xffffffffU, 64), 0x7fff % 64);
    EXPECT_EQ(vbucketOf(crcOf("00000000000000000000"), 1024), 133);
    EXPECT_EQ(vbucketOf(crcOf("00000000000000000001"), 1024), 898);
    EXPECT_EQ(vbucketOf(crcOf("AB_000000000042_0"), 1024), 327);
    EXPECT_EQ(vbucketOf(crcOf("hello"), 1024), 528);
}

TEST(KeyCodec, ChecksumByPairsEqualsZlibs) {
    Random random(5);
    for (const auto& codec :
         {KeyCodec("", 20), KeyCodec("some-prefix:", 20), KeyCodec("AB_", 12, "_0")}) {
        for (int i = 0; i < 20000; ++i) {
            const auto number = (random.next() >> random.below(64)) % codec.maxNumber();
            std::string key(codec.zeroKey());
            const auto crc = codec.write(reinterpret_cast<std::uint8_t*>(key.data()), number);
            ASSERT_EQ(crc, crcOf(key)) << key;
            ASSERT_EQ(key, codec.text(number));
        }
    }
}

TEST(KeyCodec, RefusesInvalidKeys) {
    EXPECT_THROW(KeyCodec("", 0), std::invalid_argument);
    EXPECT_THROW(KeyCodec("", 11), std::invalid_argument);
    EXPECT_THROW(KeyCodec("", 22), std::invalid_argument);
    EXPECT_NO_THROW(KeyCodec(std::string(230, 'x'), 20));
    EXPECT_THROW(KeyCodec(std::string(231, 'x'), 20), std::invalid_argument);
}

TEST(Random, IsTheSameEverywhereAndStreamsDiffer) {
    Random zero(0);
    EXPECT_EQ(zero.next(), 0xe220a8397b1dcdafU);  // SplitMix64's published first output
    EXPECT_EQ(zero.next(), 0x6e789e6aa1b965f4U);
    EXPECT_NE(Random(1, 0).next(), Random(1, 1).next());
    EXPECT_EQ(Random(1, 1).next(), Random(1, 1).next());
    EXPECT_EQ(Random::scale(0, 10), 0U);
    EXPECT_EQ(Random::scale(~std::uint64_t{0}, 10), 9U);
}

}  // namespace
}  // namespace kv::load
