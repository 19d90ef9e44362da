#include "protocol/request_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace kv::protocol {
namespace {

/// A frame with the given part lengths, as a parser would return it.
class Request {
  public:
    Request(Opcode opcode, size_t extras, size_t key, size_t value, uint8_t datatype = 0)
        : bytes_(extras + key + value, 'x') {
        frame_.header.opcode = opcode;
        frame_.header.extrasLength = static_cast<uint8_t>(extras);
        frame_.header.keyLength = static_cast<uint16_t>(key);
        frame_.header.datatype = datatype;
        const Bytes all = asBytes(bytes_);
        frame_.extras = all.first(extras);
        frame_.key = all.subspan(extras, key);
        frame_.value = all.subspan(extras + key);
    }
    [[nodiscard]] Violation check() const { return validate(frame_); }

  private:
    std::string bytes_;
    FrameView frame_;
};

TEST(RequestRules, ValidRequestsOfEachCommandPass) {
    for (const auto opcode : {Opcode::kGet, Opcode::kGetQ, Opcode::kGetK, Opcode::kGetKQ,
                              Opcode::kDelete, Opcode::kDeleteQ}) {
        EXPECT_EQ(Request(opcode, 0, 1, 0).check(), Violation::None) << toString(opcode);
    }
    for (const auto opcode : {Opcode::kSet, Opcode::kSetQ, Opcode::kAdd, Opcode::kAddQ,
                              Opcode::kReplace, Opcode::kReplaceQ}) {
        EXPECT_EQ(Request(opcode, 8, 250, 100).check(), Violation::None) << toString(opcode);
        EXPECT_EQ(Request(opcode, 8, 1, 0).check(), Violation::None) << "an empty document";
        // libcouchbase's own tests send a SET without extras
        EXPECT_EQ(Request(opcode, 0, 1, 5).check(), Violation::ExtrasLength) << toString(opcode);
    }
    for (const auto opcode :
         {Opcode::kIncrement, Opcode::kIncrementQ, Opcode::kDecrement, Opcode::kDecrementQ}) {
        EXPECT_EQ(Request(opcode, 20, 1, 0).check(), Violation::None) << toString(opcode);
        EXPECT_EQ(Request(opcode, 20, 1, 1).check(), Violation::ValueUnexpected);
    }
    for (const auto opcode :
         {Opcode::kTouch, Opcode::kGat, Opcode::kGatQ, Opcode::kGatK, Opcode::kGatKQ}) {
        EXPECT_EQ(Request(opcode, 4, 1, 0).check(), Violation::None) << toString(opcode);
    }
    EXPECT_EQ(Request(Opcode::kAppend, 0, 1, 1).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kGetMeta, 1, 1, 0).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kGetClusterConfig, 16, 0, 0).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kFlush, 4, 0, 0).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kHello, 0, 70'000 % 65536, 40).check(), Violation::None);
}

TEST(RequestRules, KeysAreRequiredForbiddenAndBounded) {
    EXPECT_EQ(Request(Opcode::kGet, 0, 0, 0).check(), Violation::KeyMissing);
    EXPECT_EQ(Request(Opcode::kGet, 0, 250, 0).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kGet, 0, 251, 0).check(), Violation::KeyTooLong);
    EXPECT_EQ(Request(Opcode::kNoop, 0, 1, 0).check(), Violation::KeyUnexpected);
    EXPECT_EQ(Request(Opcode::kStat, 0, 300, 0).check(), Violation::None) << "no document's key";
}

TEST(RequestRules, ValuesAreRequiredForbiddenAndBounded) {
    EXPECT_EQ(Request(Opcode::kGet, 0, 1, 1).check(), Violation::ValueUnexpected);
    EXPECT_EQ(Request(Opcode::kGetErrorMap, 0, 0, 0).check(), Violation::ValueMissing);
    EXPECT_EQ(Request(Opcode::kSet, 8, 1, kMaxValueLength).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kSet, 8, 1, kMaxValueLength + 1).check(), Violation::ValueTooLong);
}

TEST(RequestRules, OnlyDocumentsAreLong) {
    EXPECT_EQ(Request(Opcode::kAppend, 0, 1, kMaxValueLength).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kSetWithMeta, 24, 1, kMaxValueLength).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kDcpMutation, 31, 1, kMaxValueLength).check(), Violation::None);
    for (const auto opcode : {Opcode::kHello, Opcode::kStat, Opcode::kDelVBucket}) {
        EXPECT_EQ(Request(opcode, 0, 0, kMaxOtherValue).check(), Violation::None);
        EXPECT_EQ(Request(opcode, 0, 0, kMaxOtherValue + 1).check(), Violation::ValueTooLong);
    }
    EXPECT_EQ(Request(Opcode::kSaslAuth, 0, 5, kMaxOtherValue + 1).check(),
              Violation::ValueTooLong);
    EXPECT_EQ(Request(Opcode::kSetClusterConfig, 0, 0, kMaxConfigLength).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kSetClusterConfig, 0, 0, kMaxConfigLength + 1).check(),
              Violation::ValueTooLong);
}

TEST(RequestRules, OnlyTheJsonBitOfTheDatatypeIsTaken) {
    EXPECT_EQ(Request(Opcode::kSet, 8, 1, 1, Datatype::kJson).check(), Violation::None);
    EXPECT_EQ(Request(Opcode::kSet, 8, 1, 1, Datatype::kSnappy).check(), Violation::Datatype);
    EXPECT_EQ(Request(Opcode::kSet, 8, 1, 1, Datatype::kXattr).check(), Violation::Datatype);
    EXPECT_EQ(Request(Opcode::kSet, 8, 1, 1, 0x80).check(), Violation::Datatype);
}

TEST(RequestRules, UnknownOpcodesAreUnknownWhateverTheirShape) {
    for (const unsigned code : {0x25U, 0x77U, 0xc5U, 0xd1U, 0xffU}) {
        EXPECT_EQ(Request(static_cast<Opcode>(code), 3, 4, 5).check(), Violation::UnknownOpcode);
        EXPECT_FALSE(ruleOf(static_cast<Opcode>(code)).known);
    }
}

TEST(RequestRules, ExtrasLongerThanAnyRuleAreRefused) {
    EXPECT_EQ(Request(Opcode::kGet, 64, 1, 0).check(), Violation::ExtrasLength);
    EXPECT_EQ(Request(Opcode::kGet, 255, 1, 0).check(), Violation::ExtrasLength);
}

TEST(RequestRules, EveryViolationHasAText) {
    for (int v = 0; v <= static_cast<int>(Violation::Datatype); ++v) {
        EXPECT_FALSE(toString(static_cast<Violation>(v)).empty());
    }
}

}  // namespace
}  // namespace kv::protocol
