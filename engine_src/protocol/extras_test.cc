#include "protocol/extras.h"

#include <gtest/gtest.h>

#include <vector>

namespace kv::protocol {
namespace {

TEST(Extras, DecodeInNetworkOrder) {
    const std::vector<uint8_t> store{0xde, 0xad, 0xbe, 0xef, 0, 0, 0x0e, 0x10};
    EXPECT_EQ(decodeStoreExtras(store).flags, 0xdeadbeefU);
    EXPECT_EQ(decodeStoreExtras(store).expiry, 3600U);

    const std::vector<uint8_t> counter{0, 0, 0, 0, 0, 0, 0,    5,    1,    2,
                                       3, 4, 5, 6, 7, 8, 0xff, 0xff, 0xff, 0xff};
    EXPECT_EQ(decodeCounterExtras(counter).delta, 5U);
    EXPECT_EQ(decodeCounterExtras(counter).initial, 0x0102030405060708U);
    EXPECT_EQ(decodeCounterExtras(counter).expiry, kCounterNoCreate);

    const std::vector<uint8_t> number{0, 0, 1, 0};
    EXPECT_EQ(decodeU32(number), 256U);
    EXPECT_EQ(decodeU32({}, 15), 15U) << "absent extras";
}

TEST(Extras, ConfigVersionsCompareByEpochFirst) {
    const std::vector<uint8_t> bytes{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9};
    const auto version = decodeConfigVersion(bytes);
    EXPECT_EQ(version.epoch, 1);
    EXPECT_EQ(version.revision, 9);
    EXPECT_LT(version, (ConfigVersion{2, 0}));
    EXPECT_GT(version, (ConfigVersion{1, 8}));
}

TEST(Extras, EncodeInNetworkOrder) {
    EXPECT_EQ(encodeU32(0x01020304), (Encoded<4>{1, 2, 3, 4}));
    EXPECT_EQ(encodeU64(0x0102030405060708), (Encoded<8>{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(encodeMutationToken(1, 2),
              (Encoded<16>{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2}));
    EXPECT_EQ(encodeMeta({.deleted = true, .flags = 2, .expiry = 3, .seqno = 4, .datatype = 5}),
              (Encoded<21>{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 5}));
}

}  // namespace
}  // namespace kv::protocol
