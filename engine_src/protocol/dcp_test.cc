#include "protocol/dcp.h"

#include <gtest/gtest.h>

#include "protocol/request_rules.h"

namespace kv::protocol {
namespace {

TEST(DcpCodec, AStreamRequestHasTheWireLayout) {
    const auto bytes = encodeDcpStreamRequest({.flags = 4,
                                               .start = 0x0102,
                                               .end = ~uint64_t{0},
                                               .uuid = 0xabcdef,
                                               .snapshotStart = 0x0101,
                                               .snapshotEnd = 0x0103});
    EXPECT_EQ(bytes[3], 4);
    EXPECT_EQ(bytes[7], 0) << "reserved";
    EXPECT_EQ(bytes[15], 2);
    EXPECT_EQ(bytes[16], 0xff);
    EXPECT_EQ(bytes[31], 0xef);
    EXPECT_EQ(bytes[39], 1);
    EXPECT_EQ(bytes[47], 3);
    const auto back = decodeDcpStreamRequest(bytes);
    EXPECT_EQ(back.flags, 4u);
    EXPECT_EQ(back.start, 0x0102u);
    EXPECT_EQ(back.end, ~uint64_t{0});
    EXPECT_EQ(back.uuid, 0xabcdefu);
    EXPECT_EQ(back.snapshotStart, 0x0101u);
    EXPECT_EQ(back.snapshotEnd, 0x0103u);
}

TEST(DcpCodec, MarkersAndDocumentsRoundTrip) {
    const auto marker = decodeDcpSnapshotMarker(encodeDcpSnapshotMarker({7, 9, 2}));
    EXPECT_EQ(marker.start, 7u);
    EXPECT_EQ(marker.end, 9u);
    EXPECT_EQ(marker.flags, 2u);
    const DcpDocument document{
            .seqno = 5, .revSeqno = 6, .flags = 0xdeadbeef, .expiry = 77, .deleteTime = 88};
    const auto mutation = decodeDcpMutation(encodeDcpMutation(document));
    EXPECT_EQ(mutation.seqno, 5u);
    EXPECT_EQ(mutation.revSeqno, 6u);
    EXPECT_EQ(mutation.flags, 0xdeadbeefu);
    EXPECT_EQ(mutation.expiry, 77u);
    EXPECT_EQ(decodeDcpDeletion(encodeDcpDeletion(document)).deleteTime, 0u)
            << "version 1 has none";
    EXPECT_EQ(decodeDcpDeletion(encodeDcpDeletionV2(document)).deleteTime, 88u);
    EXPECT_EQ(decodeDcpDeletion(encodeDcpExpiration(document)).deleteTime, 88u);
    EXPECT_EQ(decodeDcpDeletion(encodeDcpExpiration(document)).revSeqno, 6u);
}

TEST(DcpCodec, AMarkerOfVersion22HasTheWireLayout) {
    const auto bytes = encodeDcpSnapshotMarkerV22({0x0107, 0x0109, 2, 0x0105});
    ASSERT_EQ(bytes.size(), 52U) << "two seqnos, the type, four seqnos";
    EXPECT_EQ(bytes[7], 7);
    EXPECT_EQ(bytes[15], 9);
    EXPECT_EQ(bytes[19], 2);
    EXPECT_EQ(bytes[27], 9) << "highest visible";
    EXPECT_EQ(bytes[35], 0) << "highest completed";
    EXPECT_EQ(bytes[43], 0) << "highest prepared";
    EXPECT_EQ(bytes[51], 5);
    const auto back = decodeDcpSnapshotMarkerV22(bytes);
    EXPECT_EQ(back.start, 0x0107U);
    EXPECT_EQ(back.end, 0x0109U);
    EXPECT_EQ(back.flags, 2U);
    EXPECT_EQ(back.purged, 0x0105U);
}

TEST(DcpCodec, OpenFlagsFollowTheReservedWord) {
    EXPECT_EQ(decodeDcpOpenFlags(encodeDcpOpen(dcp_open::kProducer | dcp_open::kDeleteTimes)),
              0x21u);
}

TEST(DcpCodec, LengthsAreThoseOfTheRules) {
    const auto allowed = [](Opcode opcode, size_t length) {
        return ((ruleOf(opcode).extras >> length) & 1U) != 0;
    };
    EXPECT_TRUE(allowed(Opcode::kDcpOpen, encodeDcpOpen(0).size()));
    EXPECT_TRUE(allowed(Opcode::kDcpStreamReq, encodeDcpStreamRequest({}).size()));
    EXPECT_TRUE(allowed(Opcode::kDcpSnapshotMarker, encodeDcpSnapshotMarker({}).size()));
    EXPECT_TRUE(allowed(Opcode::kDcpMutation, encodeDcpMutation({}).size()));
    EXPECT_TRUE(allowed(Opcode::kDcpDeletion, encodeDcpDeletion({}).size()));
    EXPECT_TRUE(allowed(Opcode::kDcpDeletion, encodeDcpDeletionV2({}).size()));
    EXPECT_TRUE(allowed(Opcode::kDcpExpiration, encodeDcpExpiration({}).size()));
    EXPECT_FALSE(allowed(Opcode::kDcpDeletion, encodeDcpExpiration({}).size()));
}

}  // namespace
}  // namespace kv::protocol
