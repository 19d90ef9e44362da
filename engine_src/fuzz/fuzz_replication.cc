// Any frames of a source to its replica: the replica must refuse or apply them, and be a working
// bucket when it is promoted afterwards.

#include <stdexcept>

#include "fuzz/require.h"
#include "logging/log.h"
#include "server/replication/replication_session.h"

namespace {

using namespace kv;
using protocol::FrameView;

constexpr uint16_t kVBuckets = 2;

/// Passes on every complete frame, as the link does, until the session refuses one.
void converse(server::ReplicationSession& session, protocol::Bytes rest) {
    session.begin();
    while (true) {
        const auto parsed = protocol::parseFrame(rest);
        if (parsed.outcome != protocol::ParseOutcome::kFrame) {
            return;
        }
        session.handle(parsed.frame);
        session.upkeep();
        session.processBuffered();
        rest = rest.subspan(parsed.frame.size());
    }
}

/// A promoted replica assigns seqnos and CAS above all that it received.
void promote(Bucket& bucket, Vbid vbid) {
    const OpTime now = OpTime::now();
    const Seqno before = bucket.vbucket(vbid).highSeqno();
    require(bucket.setVBucketState(vbid, VbState::Active, now) == OpStatus::Ok);
    const BucketMemoryGuard guard(bucket.memory());
    const OpResult stored = bucket.store(vbid, "own", StoreMode::Set, "value", {}, now);
    if (!stored.ok()) {
        require(stored.status == OpStatus::TmpFail || stored.status == OpStatus::NoMemory);
        return;
    }
    require(stored.seqno > before);
    require(bucket.get(vbid, "own", now).cas == stored.cas);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    log::setLevel(log::Level::Off);
    if (size < 1) {
        return 0;
    }
    BucketConfig config;
    config.vbuckets = kVBuckets;
    config.htSize = 3;
    config.htLocks = 1;
    // A small bucket is soon short of memory and holds messages back.
    config.quotaBytes = (data[0] & 1U) != 0 ? size_t{256} << 10 : size_t{64} << 20;
    const auto bucket = Bucket::createEphemeral(config);
    for (uint16_t vb = 0; vb < kVBuckets; ++vb) {
        bucket->setVBucketState(Vbid{vb}, VbState::Replica, OpTime::now());
    }
    const server::ReplicationSource source{.host = "source",
                                           .port = 11210,
                                           .user = (data[0] & 2U) != 0 ? "ann" : "",
                                           .password = "secret"};
    size_t sent = 0;
    {
        server::ReplicationSession session(*bucket, source,
                                           [&sent](const protocol::FrameSpec&) { ++sent; });
        try {
            converse(session, {data + 1, size - 1});
        } catch (const std::runtime_error&) {
            // The link would close the connection and try again.
            session.begin();
        }
    }
    require(sent != 0);
    for (uint16_t vb = 0; vb < kVBuckets; ++vb) {
        promote(*bucket, Vbid{vb});
    }
    return 0;
}
