// What the commands about documents share: which vBucket a request means, the counting of traffic,
// the answers of reads and mutations.
#pragma once

#include <zlib.h>

#include "server/command.h"

namespace kv::server {

/// The clients' mapping of keys to vBuckets.
inline Vbid vbucketOfKey(std::string_view key, uint16_t vbuckets) {
    const auto crc =
            ::crc32(0, reinterpret_cast<const Bytef*>(key.data()), static_cast<uInt>(key.size()));
    return Vbid{static_cast<uint16_t>(((crc >> 16U) & 0x7fffU) % vbuckets)};
}

/// Couchbase clients name the vBucket; plain memcached clients know nothing of them and always say
/// 0, so their keys are mapped here, to where a Couchbase client would look for them. Number and
/// key are not checked.
inline Vbid targetOf(const CommandContext& context, const protocol::FrameView& request) {
    return context.session.couchbase()
                   ? Vbid{request.header.vbucket()}
                   : vbucketOfKey(request.keyText(), context.server.bucket.vbucketCount());
}

// Traffic, for STAT; by prefix, too, where that is on.
void countByPrefix(CommandContext& context, const protocol::FrameView& request,
                   PrefixStats::Event event);
inline void count(CommandContext& context, const protocol::FrameView& request,
                  PrefixStats::Event event) {
    if (context.prefixes != nullptr) [[unlikely]] {
        countByPrefix(context, request, event);
    }
}

/// Silent on success for quiet forms; with the mutation token in the extras where that was
/// negotiated.
void replyMutation(CommandContext& context, const protocol::FrameView& request,
                   const OpResult& result, protocol::Bytes value = {});

/// The answer of every command that reads a document; a miss of a quiet form is silent.
After replyDocument(CommandContext& context, const protocol::FrameView& request,
                    const OpResult& result);

}  // namespace kv::server
