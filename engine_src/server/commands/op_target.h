// Shared by the commands on documents: the vBucket that a request means, the counting of traffic,
// and the answers of reads and mutations.
#pragma once

#include <zlib.h>

#include "server/commands/command.h"

namespace kv::server {

/// Maps a key to its vBucket as clients do.
inline Vbid vbucketOfKey(std::string_view key, uint16_t vbuckets) {
    const auto crc =
            ::crc32(0, reinterpret_cast<const Bytef*>(key.data()), static_cast<uInt>(key.size()));
    return Vbid{static_cast<uint16_t>(((crc >> 16U) & 0x7fffU) % vbuckets)};
}

/// Returns the vBucket of a request. Couchbase clients name it. Plain memcached clients always send
/// 0, so their keys are mapped here as a Couchbase client would map them. The number and the key
/// are not checked.
inline Vbid targetOf(const CommandContext& context, const protocol::FrameView& request) {
    return context.session.couchbase()
                   ? Vbid{request.header.vbucket()}
                   : vbucketOfKey(request.keyText(), context.server.bucket.vbucketCount());
}

// Counts traffic for STAT, also by prefix if that is on.
void countByPrefix(CommandContext& context, const protocol::FrameView& request,
                   PrefixStats::Event event);
inline void count(CommandContext& context, const protocol::FrameView& request,
                  PrefixStats::Event event) {
    if (context.prefixes != nullptr) [[unlikely]] {
        countByPrefix(context, request, event);
    }
}

/// Answers a mutation: quiet forms are silent on success; the extras hold the mutation token if it
/// was negotiated.
void replyMutation(CommandContext& context, const protocol::FrameView& request,
                   const OpResult& result, protocol::Bytes value = {});

/// Answers a command that reads a document. A miss of a quiet form is silent.
After replyDocument(CommandContext& context, const protocol::FrameView& request,
                    const OpResult& result);

}  // namespace kv::server
