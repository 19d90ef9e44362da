// Commands that show seqnos, persistence, and documents whose names the client does not know.
#include <algorithm>
#include <iterator>
#include <queue>
#include <string>
#include <vector>

#include "protocol/extras.h"
#include "server/commands/bucket_job.h"
#include "server/commands/command.h"
#include "server/commands/op_target.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

namespace {

/// Each key may be one byte, and is looked up: the keys of a request take no longer than a turn.
constexpr size_t kMaxObserveBytes = 16 << 10;
constexpr uint32_t kDefaultKeys = 1000;
constexpr uint32_t kMaxKeys = 10'000;

template <class Number>
void append(std::vector<uint8_t>& out, Number value) {
    out.resize(out.size() + sizeof value);
    storeBig(out.data() + out.size() - sizeof value, value);
}

bool isPersisted(const CommandContext& context, Vbid vbid, Seqno seqno) {
    return context.server.persistedSeqno && seqno <= context.server.persistedSeqno(vbid);
}

// --- OBSERVE: the state of documents, by name

enum class KeyState : uint8_t {
    NotPersisted = 0x00,
    Persisted = 0x01,
    NotFound = 0x80,
    DeletionNotPersisted = 0x81,
};

/// Appends the state of one document; false when its vBucket is not here.
bool observeKey(CommandContext& context, Vbid vbid, std::string_view key,
                std::vector<uint8_t>& out) {
    auto& bucket = context.server.bucket;
    if (!bucket.hasVBucket(vbid)) {
        return false;
    }
    // Memory only: a tombstone that exists only on disk counts as absent.
    const auto found = bucket.vbucket(vbid).observe(key, context.now);
    KeyState state = KeyState::NotFound;
    if (found.ok()) {
        const bool persisted = isPersisted(context, vbid, found.seqno);
        state = found.deleted ? (persisted ? KeyState::NotFound : KeyState::DeletionNotPersisted)
                              : (persisted ? KeyState::Persisted : KeyState::NotPersisted);
    } else if (found.status != OpStatus::KeyNotFound) {
        return false;
    }
    append(out, vbid.get());
    append(out, static_cast<uint16_t>(key.size()));
    out.insert(out.end(), key.begin(), key.end());
    append(out, static_cast<uint8_t>(state));
    append(out, state == KeyState::NotFound ? uint64_t{0} : found.cas.get());
    return true;
}

After observe(CommandContext& context, const FrameView& request) {
    if (request.value.size() > kMaxObserveBytes) {
        replyRefusal(context, request, OpStatus::TooBig);
        return After::Continue;
    }
    std::vector<uint8_t> out;
    auto rest = request.value;
    while (!rest.empty()) {
        const size_t length = rest.size() < 4 ? 0 : loadBig<uint16_t>(rest.data() + 2);
        if (length == 0 || length > protocol::kMaxKeyLength || rest.size() - 4 < length) {
            replyError(context, request, Status::kEinval, "Invalid arguments: list of keys");
            return After::Continue;
        }
        const Vbid vbid{loadBig<uint16_t>(rest.data())};
        if (!observeKey(context, vbid, protocol::asText(rest.subspan(4, length)), out)) {
            replyRefusal(context, request, OpStatus::NotMyVbucket);
            return After::Continue;
        }
        rest = rest.subspan(4 + length);
    }
    replyValue(context, request, out);
    return After::Continue;
}

// --- seqnos

After observeSeqno(CommandContext& context, const FrameView& request) {
    if (request.value.size() != sizeof(uint64_t)) {
        replyError(context, request, Status::kEinval, "Invalid arguments: vBucket uuid");
        return After::Continue;
    }
    const VBucket* vbucket = vbucketOf(context, request);
    if (vbucket == nullptr) {
        return After::Continue;
    }
    const VbUuid asked{loadBig<uint64_t>(request.value.data())};
    const auto log = vbucket->failoverLog().entries();
    const auto known = std::find_if(log.begin(), log.end(), [asked](const FailoverEntry& entry) {
        return entry.uuid == asked;
    });
    if (known == log.end()) {
        replyError(context, request, Status::kKeyEnoent, "No such history");
        return After::Continue;
    }
    const bool failedOver = known != log.begin();
    std::vector<uint8_t> out;
    append(out, static_cast<uint8_t>(failedOver ? 1 : 0));
    append(out, vbucket->id().get());
    append(out, log.front().uuid.get());
    append(out, context.server.persistedSeqno ? context.server.persistedSeqno(vbucket->id()).get()
                                              : uint64_t{0});
    append(out, vbucket->highSeqno().get());
    if (failedOver) {
        // The requested history ended where the next newer one began.
        append(out, asked.get());
        append(out, std::prev(known)->seqno.get());
    }
    replyValue(context, request, out);
    return After::Continue;
}

After seqnoPersistence(CommandContext& context, const FrameView& request) {
    if (!context.server.persistedSeqno) {
        replyError(context, request, Status::kNotSupported, "Nothing is persisted here");
        return After::Continue;
    }
    const VBucket* vbucket = vbucketOf(context, request);
    if (vbucket == nullptr) {
        context.session.endWait();  // it may have waited before the vBucket was removed
        return After::Continue;
    }
    const Seqno wanted{loadBig<uint64_t>(request.extras.data())};
    if (isPersisted(context, vbucket->id(), wanted)) {
        context.session.endWait();
        reply(context, request, {});
        return After::Continue;
    }
    if (context.session.waits(std::chrono::steady_clock::now(),
                              std::chrono::seconds(context.server.settings.persistWaitSeconds))) {
        return After::AgainLater;
    }
    replyRefusal(context, request, OpStatus::TmpFail);
    return After::Continue;
}

After allSeqnos(CommandContext& context, const FrameView& request) {
    const uint32_t asked = protocol::decodeU32(request.extras);
    if (asked > static_cast<uint32_t>(VbState::Dead)) {
        replyError(context, request, Status::kEinval, "Invalid arguments: vBucket state");
        return After::Continue;
    }
    std::vector<uint8_t> out;
    const auto& bucket = context.server.bucket;
    for (uint16_t id = 0; id < bucket.vbucketCount(); ++id) {
        const VBucket& vbucket = bucket.vbucket(Vbid{id});
        const VbState state = vbucket.state();
        if (asked == 0 ? state != VbState::Dead : static_cast<uint32_t>(state) == asked) {
            append(out, id);
            append(out, vbucket.highSeqno().get());
        }
    }
    replyValue(context, request, out);
    return After::Continue;
}

// --- documents

/// Reads a document of a replica as it is: it expires where the active copy is.
OpResult readReplica(const CommandContext& context, Vbid vbid, std::string_view key) {
    OpResult result;
    result.status = OpStatus::NotMyVbucket;
    auto& bucket = context.server.bucket;
    if (!bucket.hasVBucket(vbid)) {
        return result;
    }
    HashTable& table = bucket.vbucket(vbid).hashTable();
    const auto guard = table.lock(key);
    if (bucket.vbucket(vbid).state() != VbState::Replica) {
        return result;
    }
    const StoredValue* value = table.find(guard, key);
    if (value == nullptr || value->isDeleted() || value->isExpired(context.now.seconds)) {
        result.status = OpStatus::KeyNotFound;
    } else if (!value->isResident()) {
        result.status = OpStatus::WouldBlock;
    } else {
        result.status = OpStatus::Ok;
        result.datatype = value->datatype();
        result.flags = value->flags();
        result.cas = value->cas();
        result.value = value->value();
    }
    return result;
}

After getReplica(CommandContext& context, const FrameView& request) {
    return replyDocument(context, request,
                         readReplica(context, targetOf(context, request), request.keyText()));
}

/// Finds a document, which visits all deleted ones if there are few others.
OpStatus findRandom(Bucket& bucket, const OpTime& now, BucketJob::Result& result) {
    const BucketMemoryGuard guard(bucket.memory());
    std::string key;
    const OpResult found = bucket.getRandom(key, now);
    if (found.ok()) {
        const NonBucketGuard nobody;  // the bucket keeps neither key nor value for the client
        const auto bytes = protocol::asBytes(found.value.view());
        result.value.assign(bytes.begin(), bytes.end());
        result.key = key;
        result.meta = {.cas = found.cas, .flags = found.flags, .datatype = found.datatype};
    }
    return found.status;
}

After getRandomKey(CommandContext& context, const FrameView& request) {
    const NonBucketGuard nobody;
    const auto done = runBucketJob(
            context, context.server.keyLists,
            [&bucket = context.server.bucket, now = context.now](BucketJob::Result& result) {
                return findRandom(bucket, now, result);
            });
    if (!done) {
        return After::AgainLater;
    }
    const auto& found = done->result();
    if (done->status() != OpStatus::Ok) {
        replyRefusal(context, request, done->status());
        return After::Continue;
    }
    const auto flags = protocol::encodeU32(found.meta.flags);
    Response response;
    response.cas = found.meta.cas.get();
    if (context.session.features().json) {
        response.datatype = found.meta.datatype & protocol::Datatype::kJson;
    }
    response.extras = flags;
    response.key = protocol::asBytes(found.key);
    response.value = found.value;
    reply(context, request, response);
    return After::Continue;
}

/// Collects the first names of a vBucket from the given one on, in byte order, encoded as the
/// answer.
OpStatus findKeys(VBucket& vbucket, const std::string& from, uint32_t limit, uint32_t now,
                  std::vector<uint8_t>& out) {
    if (vbucket.state() != VbState::Active) {
        return OpStatus::NotMyVbucket;
    }
    // The largest name is on top and is dropped when there are too many.
    std::priority_queue<std::string> first;
    vbucket.hashTable().visit({}, [&](const HashIndex::Guard&, StoredValue& value) {
        if (!value.isDeleted() && !value.isExpired(now) && value.key() >= from) {
            first.emplace(value.key());
            if (first.size() > limit) {
                first.pop();
            }
        }
        return true;
    });
    std::vector<std::string> keys;
    for (; !first.empty(); first.pop()) {
        keys.push_back(first.top());
    }
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
        append(out, static_cast<uint16_t>(key->size()));
        out.insert(out.end(), key->begin(), key->end());
    }
    return keys.empty() ? OpStatus::KeyNotFound : OpStatus::Ok;
}

After getKeys(CommandContext& context, const FrameView& request) {
    const uint32_t limit = protocol::decodeU32(request.extras, kDefaultKeys);
    if (limit == 0 || limit > kMaxKeys) {
        replyError(context, request, Status::kEinval, "Invalid arguments: number of keys");
        return After::Continue;
    }
    // Nothing that may change is checked first: a waiting request has to find its job again.
    VBucket* vbucket = vbucketOf(context, request, IfDead::Accept);
    if (vbucket == nullptr) {
        return After::Continue;
    }
    const NonBucketGuard nobody;
    auto find = [vbucket, from = std::string(request.keyText()), limit,
                 now = context.now.seconds](BucketJob::Result& result) {
        return findKeys(*vbucket, from, limit, now, result.value);
    };
    const auto done = runBucketJob(context, context.server.keyLists, std::move(find));
    if (!done) {
        return After::AgainLater;
    }
    if (done->status() == OpStatus::Ok) {
        replyValue(context, request, done->result().value);
    } else {
        replyRefusal(context, request, done->status());
    }
    return After::Continue;
}

After listBuckets(CommandContext& context, const FrameView& request) {
    replyValue(context, request, protocol::asBytes(context.server.bucket.name()));
    return After::Continue;
}

}  // namespace

void addObserveOps(CommandTable& table) {
    using enum Needs;
    table.add({Opcode::kObserve}, {timed<observe>, Read});
    table.add({Opcode::kObserveSeqno}, {timed<observeSeqno>, Read});
    table.add({Opcode::kSeqnoPersistence}, {timed<seqnoPersistence>, Read});
    table.add({Opcode::kGetAllVBSeqnos}, {timed<allSeqnos>, Read});
    table.add({Opcode::kGetReplica}, {getReplica, Read});
    table.add({Opcode::kGetRandomKey}, {timed<getRandomKey>, Read});
    table.add({Opcode::kGetKeys}, {timed<getKeys>, Read});
    table.add({Opcode::kListBuckets}, {listBuckets, Login});
}

}  // namespace kv::server
