// Makes a store consistent again whose log was damaged.
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <algorithm>
#include <string>

#include "logging/log.h"
#include "persistence/doc_codec.h"
#include "persistence/rocks_status.h"
#include "persistence/rocks_store.h"

namespace kv {

using rocks::check;
using rocks::slice;
using rocks::view;

namespace {

/// Bytes of a write of the repair, about.
constexpr size_t kRepairBytes = size_t{1} << 20;

}  // namespace

bool RocksStore::documentsAreAhead() {
    rocksdb::ReadOptions options;
    options.total_order_seek = true;  // of all vBuckets
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options, seqnos_));
    for (iterator->SeekToLast(); iterator->Valid();) {
        const Vbid vbid = codec::vbOf(view(iterator->key()));
        const Seqno last = codec::seqnoOf(view(iterator->key()));
        const auto state = loadVbState(vbid);
        const auto entry = lookUp(keyOf(vbid, codec::decodeDoc(last, view(iterator->value())).key));
        if (!state || state->highSeqno < last || !entry || entry->seqno != last) {
            return true;
        }
        iterator->SeekForPrev(slice(codec::vbPrefix(vbid)));  // the last document of one before
    }
    check(iterator->status(), "compare the documents with their index");
    return false;
}

void RocksStore::repair() {
    // A crash in here is repaired by the next start, which finds the note of the gaps: the result
    // depends on the documents only, and of each key the newest stays.
    rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, /*overwrite_key=*/true);
    const auto store = [&] {
        if (!write(*batch.GetWriteBatch())) {
            throw StoreError("cannot write the repaired index of " + path_.string());
        }
        batch.Clear();
    };
    rocksdb::WriteBatch index;
    check(index.DeleteRange(keys_, slice(codec::vbPrefix(Vbid{0})), codec::vbEnd(Vbid{0xffff})),
          "batch");
    if (!write(index)) {
        throw StoreError("cannot remove the damaged index of " + path_.string());
    }
    rocksdb::ReadOptions options;
    options.total_order_seek = true;  // of all vBuckets
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options, seqnos_));
    uint64_t superseded = 0;
    std::string old;
    iterator->SeekToFirst();
    while (iterator->Valid()) {
        const Vbid vbid = codec::vbOf(view(iterator->key()));
        Seqno high{};
        Cas maxCas{};
        for (; iterator->Valid() && codec::vbOf(view(iterator->key())) == vbid; iterator->Next()) {
            const StoredDoc doc = codec::decodeDoc(codec::seqnoOf(view(iterator->key())),
                                                   view(iterator->value()));
            high = doc.meta.seqno;
            maxCas = std::max(maxCas, doc.meta.cas);
            const std::string key = keyOf(vbid, doc.key);
            const auto status = batch.GetFromBatchAndDB(db_.get(), {}, keys_, key, &old);
            if (!status.IsNotFound()) {
                check(status, "look a key up");
                const Seqno older = codec::decodeKeyEntry(old).seqno;
                check(batch.Delete(seqnos_, slice(codec::seqnoKey(vbid, older))), "batch");
                ++superseded;
            }
            const auto entry = codec::encode({high, !isDeletion(doc.op)});
            check(batch.Put(keys_, key, slice(entry)), "batch");
            if (batch.GetWriteBatch()->GetDataSize() >= kRepairBytes) {
                store();
            }
        }
        const PersistedVbState state = repairedState(vbid, high, maxCas);
        check(batch.Put(states_, slice(codec::vbPrefix(vbid)), codec::encode(state)), "batch");
    }
    check(iterator->status(), "repair the index");
    store();
    log::error("the index of {} was made from the documents; {} older versions of them are removed",
               path_.string(), superseded);
}

PersistedVbState RocksStore::repairedState(Vbid vbid, Seqno high, Cas maxCas) {
    auto state = loadVbState(vbid);
    if (!state) {
        // Nothing shows whether another node has an active copy.
        log::error("vBucket {} has documents, but its state is lost: it is dead", vbid.get());
        state.emplace();
    } else if (state->highSeqno < high) {
        log::error("vBucket {} has documents up to seqno {}, but its state is that of seqno {}",
                   vbid.get(), high.get(), state->highSeqno.get());
    }
    state->highSeqno = std::max(state->highSeqno, high);
    state->snapshot.end = std::max(state->snapshot.end, high);
    state->maxCas = std::max(state->maxCas, maxCas);
    state->rollbackPoints = {};  // below them, documents may be missing
    return *state;
}

}  // namespace kv
