// The codecs of the load's protocols: requests byte by byte, answers in any pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "load/core/load_error.h"
#include "load/protocols/binary_codec.h"
#include "load/protocols/meta_codec.h"
#include "load/protocols/resp_codec.h"
#include "load/protocols/text_codec.h"

namespace kv::load::codec_test {
namespace {

using protocol::Status;
using testing::HasSubstr;

const KeyCodec kKeys("k", 4);

template <class Codec>
std::string getOf(const Codec& codec, std::uint64_t number, std::uint32_t opaque = 0) {
    std::vector<std::uint8_t> to(codec.maxSize(0));
    const auto size = codec.get(to.data(), number, opaque);
    return {to.begin(), to.begin() + static_cast<std::ptrdiff_t>(size)};
}

template <class Codec>
std::string removeOf(const Codec& codec, std::uint64_t number, std::uint32_t opaque = 0) {
    std::vector<std::uint8_t> to(codec.maxSize(0));
    const auto size = codec.remove(to.data(), number, opaque);
    EXPECT_LE(size, to.size());
    return {to.begin(), to.begin() + static_cast<std::ptrdiff_t>(size)};
}

template <class Codec>
std::string setOf(const Codec& codec, std::uint64_t number, std::string_view value,
                  std::uint32_t opaque = 0) {
    std::vector<std::uint8_t> to(codec.maxSize(static_cast<std::uint32_t>(value.size())));
    auto size = codec.set(to.data(), number, opaque, static_cast<std::uint32_t>(value.size()));
    size += writeText(to.data() + size, value);
    size += codec.tail(to.data() + size);
    EXPECT_LE(size, to.size());
    return {to.begin(), to.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(Codecs, TextRequests) {
    const TextCodec codec(kKeys, {.expiry = 60, .flags = 7});
    EXPECT_EQ(getOf(codec, 42), "get k0042\r\n");
    EXPECT_EQ(removeOf(codec, 42), "delete k0042\r\n");
    EXPECT_EQ(setOf(codec, 7, "hello"), "set k0007 7 60 5\r\nhello\r\n");
    EXPECT_EQ(setOf(codec, 7, ""), "set k0007 7 60 0\r\n\r\n");
}

TEST(Codecs, MetaRequests) {
    const MetaCodec codec(kKeys, {.expiry = 60, .flags = 7});
    EXPECT_EQ(getOf(codec, 42, 1), "mg k0042 v q O100000\r\n");
    EXPECT_EQ(removeOf(codec, 42, 1), "md k0042 q O100000\r\n");
    EXPECT_EQ(setOf(codec, 7, "hello", 64), "ms k0007 5 q F7 T60 O010000\r\nhello\r\n");
    EXPECT_EQ(setOf(MetaCodec(kKeys, {}), 7, "x", 0), "ms k0007 1 q F0 O000000\r\nx\r\n");
    std::vector<std::uint8_t> fence(MetaCodec::kFenceSize);
    EXPECT_EQ(codec.fence(fence.data()), fence.size());
    EXPECT_EQ(std::string(fence.begin(), fence.end()), "mn\r\n");
}

TEST(Codecs, MetaTagsHoldEveryOpaque) {
    for (const std::uint32_t opaque : {0U, 1U, 63U, 64U, 0x12345678U, 0xffffffffU}) {
        std::string tag(MetaCodec::kTagSize, ' ');
        MetaCodec::writeTag(reinterpret_cast<std::uint8_t*>(tag.data()), opaque);
        std::uint32_t back = ~opaque;
        EXPECT_TRUE(MetaCodec::readTag(tag, back)) << tag;
        EXPECT_EQ(back, opaque);
        EXPECT_EQ(tag.find_first_of(" \r\n"), std::string::npos) << tag;
    }
    std::uint32_t unused = 0;
    EXPECT_FALSE(MetaCodec::readTag("00000", unused));
    EXPECT_FALSE(MetaCodec::readTag("00000 ", unused));
    EXPECT_FALSE(MetaCodec::readTag("oooooo", unused));  // more than 32 bits
}

TEST(Codecs, RespRequests) {
    EXPECT_EQ(getOf(RespCodec(kKeys, {}), 42), "*2\r\n$3\r\nGET\r\n$5\r\nk0042\r\n");
    EXPECT_EQ(removeOf(RespCodec(kKeys, {}), 42), "*2\r\n$3\r\nDEL\r\n$5\r\nk0042\r\n");
    EXPECT_EQ(setOf(RespCodec(kKeys, {}), 7, "hello"),
              "*3\r\n$3\r\nSET\r\n$5\r\nk0007\r\n$5\r\nhello\r\n");
    EXPECT_EQ(setOf(RespCodec(kKeys, {.expiry = 60}), 7, "hello"),
              "*5\r\n$3\r\nSET\r\n$5\r\nk0007\r\n$5\r\nhello\r\n$2\r\nEX\r\n$2\r\n60\r\n");
}

/// The replies that a Reader parsed from a stream of answers.
struct Seen {
    Reply::To to;
    Status status;
    std::uint32_t opaque;
    bool whole;
    std::string value;
    bool operator==(const Seen&) const = default;
};

/// Passes the stream through a Reader, as a channel of `capacity` bytes that receives it in pieces
/// would.
template <class Reader>
std::vector<Seen> read(std::string_view stream, std::size_t piece, std::size_t capacity = 1 << 20) {
    Reader reader;
    std::vector<Seen> seen;
    std::string buffer;
    auto onReply = [&](const Reply& reply) {
        seen.push_back({reply.to, reply.status, reply.tagged ? reply.opaque : 0, reply.whole,
                        std::string(protocol::asText(reply.value))});
    };
    while (!stream.empty()) {
        const auto size = std::min({piece, stream.size(), capacity - buffer.size()});
        EXPECT_NE(size, 0U) << "the reader waits for more than there is room for";
        if (size == 0) {
            break;
        }
        buffer += stream.substr(0, size);
        stream.remove_prefix(size);
        buffer.erase(0, reader.take(protocol::asBytes(buffer), capacity, onReply));
    }
    EXPECT_EQ(buffer, "");
    return seen;
}

template <class Reader>
void expectAnyPieces(const std::string& stream, const std::vector<Seen>& expected) {
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
        EXPECT_EQ(read<Reader>(stream, piece), expected) << piece;
    }
}

std::string refusal(const std::function<void()>& action) {
    try {
        action();
    } catch (const LoadError& error) {
        return error.what();
    }
    return "nothing was thrown";
}

template <class Reader>
std::string refusalOf(const std::string& stream) {
    return refusal([&] { read<Reader>(stream, stream.size()); });
}

const Seen kStored{Reply::To::kSet, Status::kSuccess, 0, false, ""};
const Seen kMiss{Reply::To::kGet, Status::kKeyEnoent, 0, false, ""};

Seen hit(const std::string& value, std::uint32_t opaque = 0) {
    return {Reply::To::kGet, Status::kSuccess, opaque, true, value};
}
Seen error(Status status, const std::string& line) {
    return {Reply::To::kAny, status, 0, true, line};
}

TEST(Codecs, TextAnswersInAnyPieces) {
    expectAnyPieces<TextCodec::Reader>(
            "STORED\r\nVALUE k0001 7 5\r\nhello\r\nEND\r\nEND\r\nVALUE k0002 0 0\r\n\r\nEND\r\n"
            "SERVER_ERROR out of memory storing object\r\nNOT_STORED\r\n"
            "SERVER_ERROR object too large for cache\r\nVALUE k0001 7 7\r\nEND\r\n\r\n\r\nEND\r\n"
            "SERVER_ERROR backend\r\nDELETED\r\nNOT_FOUND\r\n",
            {kStored,
             hit("hello"),
             kMiss,
             hit(""),
             error(Status::kEnomem, "SERVER_ERROR out of memory storing object"),
             {Reply::To::kSet, Status::kNotStored, 0, false, ""},
             error(Status::kE2big, "SERVER_ERROR object too large for cache"),
             hit("END\r\n\r\n"),
             error(Status::kEinternal, "SERVER_ERROR backend"),
             {Reply::To::kDelete, Status::kSuccess, 0, false, ""},
             {Reply::To::kDelete, Status::kKeyEnoent, 0, false, ""}});
}

TEST(Codecs, MetaAnswersInAnyPieces) {
    expectAnyPieces<MetaCodec::Reader>(
            "VA 5 O100000\r\nhello\r\nVA 0 f7 O200000 t-1\r\n\r\nMN\r\nHD O300000\r\n"
            "EN O400000\r\nNS O500000\r\nNF O600000\r\nSERVER_ERROR out of memory storing "
            "object\r\nMN\r\n",
            {hit("hello", 1),
             hit("", 2),
             {Reply::To::kFence, Status::kSuccess, 0, false, ""},
             {Reply::To::kSet, Status::kSuccess, 3, false, ""},
             {Reply::To::kGet, Status::kKeyEnoent, 4, false, ""},
             {Reply::To::kSet, Status::kNotStored, 5, false, ""},
             {Reply::To::kDelete, Status::kKeyEnoent, 6, false, ""},
             error(Status::kEnomem, "SERVER_ERROR out of memory storing object"),
             {Reply::To::kFence, Status::kSuccess, 0, false, ""}});
}

TEST(Codecs, RespAnswersInAnyPieces) {
    expectAnyPieces<RespCodec::Reader>(
            "+OK\r\n$5\r\nhello\r\n$-1\r\n_\r\n$0\r\n\r\n-OOM command not allowed\r\n"
            "-LOADING Redis is loading\r\n-BUSY a script\r\n$4\r\n\r\n\r\n\r\n:1\r\n:0\r\n",
            {kStored,
             hit("hello"),
             kMiss,
             kMiss,
             hit(""),
             error(Status::kEnomem, "-OOM command not allowed"),
             error(Status::kEtmpfail, "-LOADING Redis is loading"),
             error(Status::kEtmpfail, "-BUSY a script"),
             hit("\r\n\r\n"),
             {Reply::To::kDelete, Status::kSuccess, 0, false, ""},
             {Reply::To::kDelete, Status::kKeyEnoent, 0, false, ""}});
}

TEST(Codecs, BinaryAnswersInAnyPieces) {
    std::vector<std::uint8_t> frames;
    protocol::FrameSpec spec;
    spec.magic = protocol::Magic::kClientResponse;
    spec.opcode = protocol::Opcode::kSet;
    spec.opaque = 3;
    protocol::appendFrame(frames, spec);
    spec.opcode = protocol::Opcode::kGet;
    spec.opaque = 4;
    const std::vector<std::uint8_t> flags(4);
    spec.extras = flags;
    spec.value = protocol::asBytes("hello");
    protocol::appendFrame(frames, spec);
    spec = {.magic = protocol::Magic::kClientResponse, .opcode = protocol::Opcode::kGet};
    spec.vbucketOrStatus = raw(Status::kKeyEnoent);
    spec.opaque = 5;
    protocol::appendFrame(frames, spec);
    expectAnyPieces<BinaryCodec::Reader>(std::string(frames.begin(), frames.end()),
                                         {{Reply::To::kSet, Status::kSuccess, 3, true, ""},
                                          hit("hello", 4),
                                          {Reply::To::kGet, Status::kKeyEnoent, 5, true, ""}});
}

TEST(Codecs, ValuesLargerThanTheBufferAreSkipped) {
    const std::string large(1000, 'x');
    const Seen skipped{Reply::To::kGet, Status::kSuccess, 0, false, ""};
    for (const std::size_t piece : {1U, 7U, 64U}) {
        EXPECT_EQ(read<RespCodec::Reader>("+OK\r\n$1000\r\n" + large + "\r\n+OK\r\n", piece, 64),
                  (std::vector<Seen>{kStored, skipped, kStored}));
        EXPECT_EQ(read<TextCodec::Reader>(
                          "VALUE k0001 0 1000\r\n" + large + "\r\nEND\r\nSTORED\r\n", piece, 64),
                  (std::vector<Seen>{skipped, kStored}));
    }
}

TEST(Codecs, OtherBytesAreRefused) {
    const std::string tooLong(LineReader<RespGrammar>::kLongestLine, 'x');
    for (const std::string& bytes :
         {std::string("+PONG\r\n"), std::string(":2\r\n"), std::string("\r\n"),
          std::string("+OK\n"), std::string("$5\r\nhello++"), std::string("$-2\r\n"),
          std::string("$99999999999\r\n"), std::string("$\r\n"), tooLong}) {
        EXPECT_THAT(refusalOf<RespCodec::Reader>(bytes), HasSubstr("not an answer of the Redis"))
                << bytes.substr(0, 20);
    }
    for (const std::string& bytes :
         {std::string("VALUE\r\n"), std::string("VALUE k 0 x\r\n"), std::string("OK\r\n"),
          std::string("VALUE k0001 0 2\r\nok\r\nend\r\n"), tooLong}) {
        EXPECT_THAT(refusalOf<TextCodec::Reader>(bytes),
                    HasSubstr("not an answer of the memcached"))
                << bytes.substr(0, 20);
    }
    for (const std::string& bytes :
         {std::string("VA\r\n"), std::string("VA 5\r\nhello\r\n"), std::string("HD\r\n"),
          std::string("HD O1\r\n"), std::string("MN O100000\r\n"), tooLong}) {
        EXPECT_THAT(refusalOf<MetaCodec::Reader>(bytes),
                    HasSubstr("not an answer of the memcached"))
                << bytes.substr(0, 20);
    }
}

TEST(Codecs, BytesThatAreRefusedAreQuoted) {
    EXPECT_THAT(refusalOf<RespCodec::Reader>("+OK\r\n>2\r\n+message\r\n"),
                HasSubstr("the server sent '>2', which is not an answer of the Redis protocol"));
    EXPECT_THAT(refusalOf<TextCodec::Reader>("oh \x01 no\r\n"), HasSubstr("'oh ? no'"));
    EXPECT_THAT(refusalOf<MetaCodec::Reader>("VA 2 O100000\r\nok, more"), HasSubstr("', more'"));
    EXPECT_THAT(refusalOf<TextCodec::Reader>(std::string(9000, 'x')), HasSubstr("xxx...'"));
    EXPECT_THAT(refusalOf<BinaryCodec::Reader>("-ERR unknown command 'x'\r\n"),
                HasSubstr("'-ERR unknown command 'x'"));
}

TEST(Codecs, RefusalsThatConcernTheWholeRunEndItWithAdvice) {
    EXPECT_THAT(refusalOf<RespCodec::Reader>("-NOAUTH Authentication required.\r\n"),
                HasSubstr("--password-file"));
    EXPECT_THAT(refusalOf<RespCodec::Reader>("-ERR max number of clients reached\r\n"),
                HasSubstr("maxclients"));
    EXPECT_THAT(refusalOf<RespCodec::Reader>("-MOVED 1 10.0.0.1:7000\r\n"),
                HasSubstr("not part of a Redis cluster"));
    EXPECT_THAT(refusalOf<RespCodec::Reader>("-ASK 1 10.0.0.1:7000\r\n"),
                HasSubstr("not part of a Redis cluster"));
    EXPECT_THAT(refusalOf<RespCodec::Reader>("-NOREPLICAS Not enough good replicas.\r\n"),
                HasSubstr("min-replicas-to-write"));
    EXPECT_THAT(refusalOf<TextCodec::Reader>("ERROR Too many open connections\r\n"),
                HasSubstr("limit of connections"));
    EXPECT_THAT(refusalOf<MetaCodec::Reader>("CLIENT_ERROR bad \x01 data chunk\r\n"),
                HasSubstr("'CLIENT_ERROR bad ? data chunk'"));
}

}  // namespace
}  // namespace kv::load::codec_test
