// LookAhead: visits a batch of requests some frames ahead of the request loop and starts loading
// the memory of their documents, so that the loop need not wait for it: in a large table nearly
// every document is a cache miss.
//
// It is only a hint: it reads headers and keys, trusts nothing, and stops at the first frame that
// is not a complete plain request. It takes two steps for each key: the fields of the vBucket
// first, and a few frames later the hash bucket that they point to.
#pragma once

#include <array>
#include <cstdint>

#include "server/commands/command.h"
#include "server/commands/op_target.h"

namespace kv::server {

class LookAhead {
  public:
    /// `input` is the batch that the loop is about to execute.
    LookAhead(const CommandContext& context, protocol::Bytes input)
        : context_(context), rest_(input) {
        for (size_t i = 0; i < kDistance; ++i) {
            advance();
        }
    }

    /// Call it once for every request that the loop takes.
    void advance() {
        Target next = take();
        if (next.known) {
            context_.server.bucket.prefetchVBucket(next.vbid);
        }
        std::swap(next, window_[at_]);
        at_ = (at_ + 1) % window_.size();
        if (next.known) {
            context_.server.bucket.prefetchKey(next.vbid, next.hash);
        }
    }

  private:
    static constexpr size_t kDistance = 12;  ///< frames ahead of the loop
    static constexpr size_t kSteps = 5;      ///< frames between the two steps

    struct Target {
        bool known{false};
        Vbid vbid{};
        uint64_t hash{0};
    };

    Target take() {
        using namespace protocol;
        if (rest_.size() < kHeaderSize || rest_[0] != raw(Magic::kClientRequest)) {
            rest_ = {};
            return {};
        }
        const Header header = decodeHeader(rest_.data());
        if (header.frameSize() > rest_.size() || !header.lengthsAgree()) {
            rest_ = {};
            return {};
        }
        const auto key = asText(rest_.subspan(kHeaderSize + header.extrasLength, header.keyLength));
        rest_ = rest_.subspan(header.frameSize());
        if (key.empty() || !needsBucket(context_.server.commands.at(header.opcode).needs)) {
            return {};
        }
        const Vbid vbid = context_.session.couchbase()
                                  ? Vbid{header.vbucket()}
                                  : vbucketOfKey(key, context_.server.bucket.vbucketCount());
        return {context_.server.bucket.hasVBucket(vbid), vbid, hashKey(key)};
    }

    const CommandContext& context_;
    protocol::Bytes rest_;
    std::array<Target, kSteps> window_{};
    size_t at_{0};
};

}  // namespace kv::server
