#include "protocol/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

#include "protocol/frame_info.h"

namespace kv::protocol {
namespace {

// --- compile-time: the arithmetic itself -------------------------------------------------------

constexpr std::array<std::uint8_t, 8> kCounting{1, 2, 3, 4, 5, 6, 7, 8};
static_assert(loadBig<std::uint8_t>(kCounting.data()) == 1);
static_assert(loadBig<std::uint16_t>(kCounting.data() + 1) == 0x0203);  // unaligned on purpose
static_assert(loadBig<std::uint32_t>(kCounting.data() + 3) == 0x04050607);
static_assert(loadBig<std::uint64_t>(kCounting.data()) == 0x0102030405060708);

constexpr std::array<std::uint8_t, kHeaderSize> encoded(const Header& header) {
    std::array<std::uint8_t, kHeaderSize> out{};
    encodeHeader(out.data(), header);
    return out;
}

constexpr Header kSample{Magic::kClientRequest, Opcode::kSet, 0,   20,         8,
                         Datatype::kJson,       0x3ff,        284, 0xdeadbeef, 0x1122334455667788};
constexpr std::array<std::uint8_t, kHeaderSize> kSampleBytes{
        0x80, 0x01, 0x00, 0x14, 0x08, 0x01, 0x03, 0xff, 0x00, 0x00, 0x01, 0x1c,
        0xde, 0xad, 0xbe, 0xef, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
static_assert(encoded(kSample) == kSampleBytes);
static_assert(decodeHeader(kSampleBytes.data()).cas == 0x1122334455667788);
static_assert(decodeHeader(kSampleBytes.data()).frameSize() == 308);
static_assert(encoded(decodeHeader(kSampleBytes.data())) == kSampleBytes);

constexpr Header kAltSample{Magic::kAltClientRequest, Opcode::kSet, 3, 20, 8, 0, 7, 40, 1, 0};
static_assert(encoded(kAltSample)[2] == 3 && encoded(kAltSample)[3] == 20);
static_assert(decodeHeader(encoded(kAltSample).data()).framingLength == 3);
static_assert(decodeHeader(encoded(kAltSample).data()).keyLength == 20);

static_assert(parseFrame(Bytes(kSampleBytes)).outcome == ParseOutcome::kNeedMore);
static_assert(parseFrame(Bytes(kSampleBytes)).wanted == 308);
static_assert(isQuiet(Opcode::kSetQ) && isQuiet(Opcode::kPrependQ) && isQuiet(Opcode::kGatKQ));
static_assert(!isQuiet(Opcode::kStat) && !isQuiet(Opcode::kVerbosity) && !isQuiet(Opcode::kGet));

// --- frames ------------------------------------------------------------------------------------

std::vector<std::uint8_t> frameOf(const FrameSpec& spec) {
    std::vector<std::uint8_t> out;
    appendFrame(out, spec);
    return out;
}

FrameSpec sampleSpec() {
    FrameSpec spec;
    spec.magic = Magic::kAltClientRequest;
    spec.opcode = Opcode::kSet;
    spec.vbucketOrStatus = 12;
    spec.opaque = 99;
    spec.cas = 5;
    spec.datatype = Datatype::kJson;
    spec.framing = asBytes("\x50");
    spec.extras = asBytes("12345678");
    spec.key = asBytes("key");
    spec.value = asBytes("value");
    return spec;
}

TEST(BigEndian, RunTimeAgreesWithCompileTime) {
    std::array<std::uint8_t, 9> bytes{};
    for (std::size_t at = 0; at < 2; ++at) {  // aligned or not
        storeBig<std::uint64_t>(bytes.data() + at, 0x0102030405060708);
        EXPECT_EQ(bytes[at], 1);
        EXPECT_EQ(loadBig<std::uint64_t>(bytes.data() + at), 0x0102030405060708U);
        EXPECT_EQ(loadBig<std::uint32_t>(bytes.data() + at), 0x01020304U);
        EXPECT_EQ(loadBig<std::uint16_t>(bytes.data() + at + 6), 0x0708U);
        EXPECT_EQ(loadBig<std::uint8_t>(bytes.data() + at + 7), 8U);
    }
}

TEST(Frame, RoundTripsEveryPart) {
    const auto bytes = frameOf(sampleSpec());
    const auto result = parseFrame(bytes);
    ASSERT_EQ(result.outcome, ParseOutcome::kFrame);
    EXPECT_EQ(result.frame.header.vbucket(), 12);
    EXPECT_EQ(result.frame.header.opaque, 99U);
    EXPECT_EQ(result.frame.header.cas, 5U);
    EXPECT_EQ(asText(result.frame.framing), "\x50");
    EXPECT_EQ(asText(result.frame.extras), "12345678");
    EXPECT_EQ(result.frame.keyText(), "key");
    EXPECT_EQ(result.frame.valueText(), "value");
    EXPECT_EQ(result.frame.size(), bytes.size());
}

TEST(Frame, EveryTruncationNeedsMoreAndReportsHowMuch) {
    const auto bytes = frameOf(sampleSpec());
    for (std::size_t have = 0; have < bytes.size(); ++have) {
        const auto result = parseFrame(Bytes(bytes).first(have));
        ASSERT_EQ(result.outcome, ParseOutcome::kNeedMore) << have;
        ASSERT_GT(result.wanted, have);
        ASSERT_EQ(result.wanted, have < kHeaderSize ? kHeaderSize : bytes.size());
    }
}

TEST(Frame, LeavesTheNextFrameAlone) {
    auto bytes = frameOf(sampleSpec());
    const auto one = bytes.size();
    FrameSpec second;
    second.opcode = Opcode::kNoop;
    appendFrame(bytes, second);
    EXPECT_EQ(parseFrame(bytes).frame.size(), one);
    EXPECT_EQ(parseFrame(Bytes(bytes).subspan(one)).frame.header.opcode, Opcode::kNoop);
}

TEST(Frame, UnknownMagicIsBadFromItsFirstByte) {
    for (unsigned byte = 0; byte < 256; ++byte) {
        const auto first = static_cast<std::uint8_t>(byte);
        const auto result = parseFrame(Bytes(&first, 1));
        const bool known = byte == 0x80 || byte == 0x81 || byte == 0x08 || byte == 0x18 ||
                           byte == 0x82 || byte == 0x83;
        EXPECT_EQ(result.outcome, known ? ParseOutcome::kNeedMore : ParseOutcome::kBad) << byte;
        EXPECT_EQ(result.error, known ? ParseError::kNone : ParseError::kBadMagic) << byte;
    }
}

TEST(Frame, PartsLargerThanTheBodyAreBad) {
    auto bytes = frameOf(sampleSpec());
    storeBig<std::uint32_t>(bytes.data() + 8, 11);  // framing 1 + extras 8 + key 3 = 12
    const auto result = parseFrame(bytes);
    EXPECT_EQ(result.outcome, ParseOutcome::kBad);
    EXPECT_EQ(result.error, ParseError::kLengthMismatch);
    EXPECT_EQ(result.frame.header.opaque, 99U);  // enough to answer Einval
    storeBig<std::uint32_t>(bytes.data() + 8, 12);
    EXPECT_EQ(parseFrame(bytes).outcome, ParseOutcome::kFrame);
    EXPECT_TRUE(parseFrame(bytes).frame.value.empty());
}

TEST(Frame, BodyLimitIsJudgedFromTheHeaderAlone) {
    Limits limits;
    limits.maxBody = 100;
    Header header = kSample;
    header.bodyLength = 100;
    EXPECT_EQ(parseFrame(encoded(header), limits).outcome, ParseOutcome::kNeedMore);
    header.bodyLength = 101;
    const auto bytes = encoded(header);
    const auto result = parseFrame(bytes, limits);
    EXPECT_EQ(result.outcome, ParseOutcome::kBad);
    EXPECT_EQ(result.error, ParseError::kBodyTooLarge);
    EXPECT_EQ(result.frame.header.opaque, 0xdeadbeefU);
}

TEST(Frame, RefusesPartsThatTheHeaderCannotDescribe) {
    const std::string long256(256, 'x');
    FrameSpec spec;
    spec.key = asBytes(long256);
    EXPECT_TRUE(spec.encodable());
    spec.magic = Magic::kAltClientRequest;
    EXPECT_THROW(frameOf(spec), std::length_error);  // an 8-bit key length there
    spec = {};
    spec.extras = asBytes(long256);
    EXPECT_THROW(frameOf(spec), std::length_error);
    spec = {};
    spec.framing = asBytes("x");  // plain magic has no framing extras
    EXPECT_THROW(frameOf(spec), std::length_error);
    const std::string long64k(0x10000, 'x');
    spec = {};
    spec.key = asBytes(long64k);
    EXPECT_THROW(frameOf(spec), std::length_error);
}

TEST(Frame, OpcodeNames) {
    EXPECT_EQ(toString(Opcode::kGatKQ), "gat_k_q");
    EXPECT_EQ(toString(Opcode::kDcpMutation), "dcp_mutation");
    EXPECT_EQ(toString(static_cast<Opcode>(0x77)), "unknown");
    EXPECT_EQ(toString(Status::kEtmpfail), "Etmpfail");
    EXPECT_EQ(toString(static_cast<Status>(0x7777)), "unknown");
}

// --- framing extras ----------------------------------------------------------------------------

TEST(FrameInfo, WalksShortAndEscapedEntries) {
    // preserve TTL (id 5, length 0); durability (id 1, length 3); id 15+1 with length 15+2.
    std::vector<std::uint8_t> bytes{0x50, 0x13, 0x01, 0x0b, 0xb8, 0xff, 0x01, 0x02};
    bytes.insert(bytes.end(), 17, 0xaa);
    FrameInfoReader reader(bytes);
    auto info = reader.next();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->id, 5);
    EXPECT_TRUE(info->data.empty());
    info = reader.next();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->id, 1);
    ASSERT_EQ(info->data.size(), 3U);
    EXPECT_EQ(loadBig<std::uint16_t>(info->data.data() + 1), 3000);
    info = reader.next();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->id, 16);
    EXPECT_EQ(info->data.size(), 17U);
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.bad());
}

TEST(FrameInfo, BrokenListsAreBadNotReadPastTheEnd) {
    for (const auto& bytes :
         {std::vector<std::uint8_t>{0x13, 0x01}, std::vector<std::uint8_t>{0xf0},
          std::vector<std::uint8_t>{0x0f}, std::vector<std::uint8_t>{0xff, 0x01}}) {
        FrameInfoReader reader(bytes);
        EXPECT_FALSE(reader.next());
        EXPECT_TRUE(reader.bad());
        EXPECT_FALSE(reader.next());
    }
}

}  // namespace
}  // namespace kv::protocol
