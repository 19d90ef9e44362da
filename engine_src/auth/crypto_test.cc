#include "auth/crypto.h"

#include <gtest/gtest.h>

#include <string>

namespace kv::crypto {
namespace {

std::string hex(const std::string& bytes) {
    static const char* digits = "0123456789abcdef";
    std::string text;
    for (const char byte : bytes) {
        const auto value = static_cast<unsigned char>(byte);
        text.push_back(digits[value >> 4U]);
        text.push_back(digits[value & 15U]);
    }
    return text;
}

TEST(Crypto, PublishedVectors) {
    EXPECT_EQ(hex(hash(Digest::Sha1, "abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
    // RFC 4231, case 2
    EXPECT_EQ(hex(hmac(Digest::Sha256, "Jefe", "what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    // RFC 6070, 4096 iterations
    EXPECT_EQ(hex(pbkdf2(Digest::Sha1, "password", "salt", 4096)),
              "4b007901b765489abead49d926f721d065a429c1");
    EXPECT_EQ(pbkdf2(Digest::Sha512, "p", "s", 1).size(), 64U);
}

TEST(Crypto, Base64BothWays) {
    for (const std::string text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
        EXPECT_EQ(fromBase64(toBase64(text)), text);
    }
    EXPECT_EQ(toBase64("fooba"), "Zm9vYmE=");
    for (const char* bad : {"Zg", "Zg=", "Z===", "!!!!", "Zm9v\n", "Zh==", "=Zg="}) {
        EXPECT_FALSE(fromBase64(bad)) << bad;
    }
}

TEST(Crypto, ConstantTimeComparison) {
    EXPECT_TRUE(equalConstantTime("same", "same"));
    EXPECT_FALSE(equalConstantTime("same", "samf"));
    EXPECT_FALSE(equalConstantTime("same", "sam"));
    EXPECT_TRUE(equalConstantTime("", ""));
}

TEST(Crypto, RandomBytesDiffer) {
    EXPECT_EQ(randomBytes(18).size(), 18U);
    EXPECT_NE(randomBytes(18), randomBytes(18));
}

}  // namespace
}  // namespace kv::crypto
