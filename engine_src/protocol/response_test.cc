#include "protocol/response.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kv::protocol {
namespace {

TEST(Response, IsWhatTheParserReadsBack) {
    const std::string extras = "1234";
    const std::string key = "key";
    const std::string value(300, 'v');
    Response response;
    response.opcode = Opcode::kGetK;
    response.status = Status::kKeyEexists;
    response.opaque = 0xcafe;
    response.cas = 0x1122334455667788;
    response.datatype = Datatype::kJson;
    response.extras = asBytes(extras);
    response.key = asBytes(key);
    response.value = asBytes(value);

    std::vector<uint8_t> wire(response.size() + 1, 0xee);
    ASSERT_EQ(writeResponse(wire.data(), response), response.size());
    EXPECT_EQ(wire.back(), 0xee) << "wrote past its size";

    const auto parsed = parseFrame(Bytes(wire).first(response.size()));
    ASSERT_EQ(parsed.outcome, ParseOutcome::kFrame);
    EXPECT_EQ(parsed.frame.header.magic, Magic::kClientResponse);
    EXPECT_EQ(parsed.frame.header.opcode, Opcode::kGetK);
    EXPECT_EQ(parsed.frame.header.status(), Status::kKeyEexists);
    EXPECT_EQ(parsed.frame.header.opaque, 0xcafeU);
    EXPECT_EQ(parsed.frame.header.cas, 0x1122334455667788U);
    EXPECT_EQ(parsed.frame.header.datatype, Datatype::kJson);
    EXPECT_EQ(asText(parsed.frame.extras), extras);
    EXPECT_EQ(parsed.frame.keyText(), key);
    EXPECT_EQ(parsed.frame.valueText(), value);
}

TEST(Response, WithoutPartsIsAHeader) {
    const Response response;
    std::vector<uint8_t> wire(response.size());
    EXPECT_EQ(writeResponse(wire.data(), response), kHeaderSize);
    EXPECT_EQ(decodeHeader(wire.data()).bodyLength, 0U);
}

}  // namespace
}  // namespace kv::protocol
