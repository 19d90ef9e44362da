// For tests and fuzzers: a small ephemeral bucket, a session in front of it, and frames as bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bucket/bucket.h"
#include "server/connections/request_loop.h"

namespace kv::server::testing_support {

inline std::unique_ptr<Bucket> makeBucket(uint16_t vbuckets = 4) {
    BucketConfig config;
    config.vbuckets = vbuckets;
    config.quotaBytes = size_t{256} << 20;
    auto bucket = Bucket::createEphemeral(config);
    for (uint16_t id = 0; id < vbuckets; ++id) {
        bucket->setVBucketState(Vbid{id}, VbState::Active, OpTime::now());
    }
    return bucket;
}

/// One frame as text; its parts are copied at once.
struct Frame {
    protocol::Opcode opcode{protocol::Opcode::kNoop};
    std::string key{};
    std::string value{};
    std::string extras{};
    uint16_t vbucket{0};
    uint32_t opaque{0};
    uint64_t cas{0};
    uint8_t datatype{0};
    protocol::Magic magic{protocol::Magic::kClientRequest};
    std::string framing{};

    [[nodiscard]] std::string bytes() const {
        std::vector<uint8_t> out;
        protocol::appendFrame(out, {.magic = magic,
                                    .opcode = opcode,
                                    .vbucketOrStatus = vbucket,
                                    .opaque = opaque,
                                    .cas = cas,
                                    .datatype = datatype,
                                    .framing = protocol::asBytes(framing),
                                    .extras = protocol::asBytes(extras),
                                    .key = protocol::asBytes(key),
                                    .value = protocol::asBytes(value)});
        // At once: byte by byte takes seconds under TSan.
        return std::string(protocol::asText(out));
    }
};

inline std::string setBytes(const std::string& key, const std::string& value, uint32_t opaque = 0) {
    return Frame{.opcode = protocol::Opcode::kSet,
                 .key = key,
                 .value = value,
                 .extras = std::string(8, '\0'),
                 .opaque = opaque}
            .bytes();
}

inline std::string getBytes(const std::string& key, uint32_t opaque = 0) {
    return Frame{.opcode = protocol::Opcode::kGet, .key = key, .opaque = opaque}.bytes();
}

struct Answer {
    protocol::Opcode opcode;
    protocol::Status status;
    uint32_t opaque;
    uint64_t cas;
    uint8_t datatype;
    std::string extras;
    std::string key;
    std::string value;
};

/// Returns all frames in `bytes`; stops at the first that is broken or incomplete.
inline std::vector<Answer> parseAnswers(protocol::Bytes bytes) {
    std::vector<Answer> answers;
    while (true) {
        const auto parsed = protocol::parseFrame(bytes);
        if (parsed.outcome != protocol::ParseOutcome::kFrame) {
            return answers;
        }
        const auto& frame = parsed.frame;
        answers.push_back({frame.header.opcode, frame.header.status(), frame.header.opaque,
                           frame.header.cas, frame.header.datatype,
                           std::string(protocol::asText(frame.extras)),
                           std::string(frame.keyText()), std::string(frame.valueText())});
        bytes = bytes.subspan(frame.size());
    }
}

/// A session without a socket: bytes in, bytes out.
// Its statistics have separate cache lines.
class Bench {  // NOLINT(clang-analyzer-optin.performance.Padding)
  public:
    explicit Bench(const UserStore* users = nullptr, uint16_t vbuckets = 4,
                   std::unique_ptr<Bucket> own = {})
        : bucket(own ? std::move(own) : makeBucket(vbuckets)),
          server{.bucket = *bucket,
                 .users = users,
                 .config =
                         PublishedConfig(ClusterConfig("default", vbuckets, 11210, "uuid"), "uuid"),
                 .settings = {},
                 .commands = commands,
                 .threadStats = {&stats},
                 .configStats = {},
                 .statSources = {},
                 .statResets = {}},
          session(1, users != nullptr) {}

    /// Without limits, so that what a test sees does not depend on the time that requests take.
    static constexpr TurnBudget kUnlimited{UINT32_MAX, SIZE_MAX, SIZE_MAX};

    /// Passes in `bytes` behind what was left over, and returns the result of the request loop.
    Progress feed(std::string_view bytes, TurnBudget budget = kUnlimited) {
        const size_t skipped = std::min(toSkip, bytes.size());
        toSkip -= skipped;
        bytes.remove_prefix(skipped);
        CommandContext context{server, session, out, stats, now};
        if (large) {
            const size_t count = std::min(large.missing(), bytes.size());
            std::copy_n(bytes.data(), count, large.room());
            large.commit(count);
            bytes.remove_prefix(count);
            if (large.missing() != 0) {
                return {.wanted = large.missing()};
            }
            if (auto progress = runLarge(context, std::move(large));
                progress.stop != Stop::NeedInput) {
                pending = bytes;
                return progress;
            }
        }
        pending += bytes;
        const auto progress = runRequests(context, protocol::asBytes(pending), budget);
        pending.erase(0, progress.consumed);
        toSkip += progress.skip;
        if (progress.stop == Stop::NeedInput && progress.wanted > largeFrom) {
            large = LargeRequest::start(server, session, protocol::asBytes(pending));
            if (large) {
                pending.clear();
            }
        }
        return progress;
    }
    /// Returns the bytes that a client would receive.
    static std::string bytesOf(const Output& output) {
        std::vector<iovec> pieces(output.size() + 1);
        pieces.resize(output.gather(pieces));
        std::string bytes;
        for (const iovec& piece : pieces) {
            bytes.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
        }
        return bytes;
    }
    /// Returns every answer since the last call.
    std::vector<Answer> answers() {
        const auto bytes = bytesOf(out);
        auto found = parseAnswers(protocol::asBytes(bytes));
        out.clear();
        return found;
    }
    /// Returns the only answer to one request.
    Answer ask(const Frame& frame) {
        feed(frame.bytes());
        auto found = answers();
        return found.size() == 1 ? found.front() : Answer{};
    }
    /// Negotiates `features` (as on the wire) and selects the bucket.
    void becomeCouchbase(const std::string& features = std::string("\0\x08", 2)) {
        ask({.opcode = protocol::Opcode::kHello, .key = "test", .value = features});
        ask({.opcode = protocol::Opcode::kSelectBucket, .key = "default"});
    }

    std::unique_ptr<Bucket> bucket;
    CommandTable commands;
    FrontEndStats stats{1};
    ServerContext server;
    Session session;
    Output out;
    std::string pending;
    size_t largeFrom{SIZE_MAX};  ///< requests larger than this are read as large requests
    LargeRequest large;
    size_t toSkip{0};  ///< bytes still to come of a request that was refused as too long
    OpTime now{OpTime::now()};
};

}  // namespace kv::server::testing_support
