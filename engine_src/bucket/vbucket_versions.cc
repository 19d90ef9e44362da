// Versions of documents from another cluster: which of two wins, and keeping their CAS and
// revision.
#include <tuple>

#include "bucket/vbucket.h"

namespace kv {

namespace {

/// The time when a deletion arrived here does not belong to its version; of equal versions the
/// deletion is newer.
auto rank(const ItemMeta& meta, bool deleted) {
    return std::tuple(meta.revSeqno, meta.cas, deleted ? UINT32_MAX : meta.exptime, meta.flags);
}

}  // namespace

OpResult VBucket::storeVersion(std::string_view key, BlobPtr value, const VersionArgs& version,
                               const FindTombstone& findTombstone, const OpTime& now) {
    Notice notice(*this);
    const Guard guard = table_.lock(key);
    if (!isActive()) {
        return failed(OpStatus::NotMyVbucket);
    }
    StoredValue* found = table_.find(guard, key);
    const bool live = found != nullptr && !found->isDeleted() && !found->isExpired(now.seconds);
    if (live) {
        if (version.onlyNew) {
            return failed(OpStatus::KeyExists);
        }
        if (const auto refused = refuse(*found, version.expected, now)) {
            return failed(*refused);
        }
    } else if (version.expected != Cas{}) {
        return failed(OpStatus::KeyNotFound);
    }
    std::optional<ItemMeta> here;
    if (found != nullptr) {
        here = found->meta();
    } else if (const OpStatus status = findTombstone(here); status != OpStatus::Ok) {
        return failed(status);
    }

    ItemMeta meta{.cas = version.cas,
                  .revSeqno = version.revSeqno,
                  .flags = version.flags,
                  .exptime = version.exptime,
                  .datatype = version.datatype};
    ItemOp op = ItemOp::Mutation;
    if (version.deleted) {
        op = version.expiration ? ItemOp::Expiration : ItemOp::Deletion;
        // The purge time is ours: an early one would remove the tombstone before all readers have
        // seen it, a late one would keep it in memory.
        meta.exptime = now.seconds;
        meta.datatype = 0;  // of a value that does not exist
        value = {};
    }
    const bool deletedHere = found == nullptr || found->isDeleted();
    if (here && !version.overrule && rank(meta, version.deleted) <= rank(*here, deletedHere)) {
        return failed(OpStatus::KeyExists);
    }
    Room room = makeRoom(guard, found, key);
    const QueueResult queued = checkpoints_.queueDirty(
            Item::create(vbid_, op, key, meta, value), found != nullptr ? found->seqno() : Seqno{},
            GenerateSeqno::Yes, version.renewCas ? GenerateCas::Yes : GenerateCas::No, now.nanos);
    meta.seqno = queued.seqno;
    meta.cas = queued.cas;
    if (found != nullptr) {
        openLock(*found);
    }
    put(guard, found, room, op, meta, std::move(value));
    notice.queued(queued.seqno);
    return done(queued);
}

}  // namespace kv
