#include "persistence/rocks_store.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <utility>

#include "logging/log.h"
#include "memory/bucket_memory.h"
#include "persistence/doc_codec.h"
#include "persistence/log_notes.h"
#include "persistence/recoverable_files.h"
#include "persistence/rocks_scan.h"
#include "persistence/rocks_status.h"

namespace kv {

using rocks::check;
using rocks::slice;
using rocks::view;

namespace {

/// Room for the vBucket's state in a transaction's batch.
constexpr size_t kStateBytes = 256;

}  // namespace

RocksStore::RocksStore(const std::string& path, const RocksConfig& config)
    : config_(config),
      path_(path),
      gapsNote_(path + "-gaps"),
      logNotes_(std::make_shared<LogNotes>(path + "-logs")),
      hasGaps_(std::filesystem::exists(gapsNote_)) {
    const NonBucketGuard guard;
    checkFiles(path);
    openDatabase(path);
    directory_ = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!hasGaps_ && documentsAreAhead()) {
        const std::string what = path +
                                 " has documents that its index or a vBucket's state lacks: "
                                 "its write-ahead logs were damaged";
        if (!config_.acceptLoss) {
            throw DamageError(what);
        }
        log::error("{}", what);
        noteGaps();
    }
    if (hasGaps_) {
        repair();
    }
}

RocksStore::~RocksStore() {
    const NonBucketGuard guard;
    batch_.reset();
    handles_.clear();
    db_.reset();
    files_.reset();
}

void RocksStore::ReturnHandle::operator()(rocksdb::ColumnFamilyHandle* handle) const {
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
}

void RocksStore::setKey(std::string& to, Vbid vbid, std::string_view key) {
    const auto prefix = codec::vbPrefix(vbid);
    to.assign(prefix.data(), prefix.size());
    to.append(key);
}

std::string RocksStore::keyOf(Vbid vbid, std::string_view key) {
    std::string result;
    setKey(result, vbid, key);
    return result;
}

void RocksStore::begin(Vbid vbid, size_t bytesHint) {
    const NonBucketGuard guard;
    vbid_ = vbid;
    expect({});
    if (batch_ == nullptr) {
        // Other transactions may follow: probably as much as last time.
        batch_ = std::make_unique<rocksdb::WriteBatch>(
                std::max(bytesHint + kStateBytes, lastBytes_));
        batchSets_ = 0;
        batchDeletes_ = 0;
    }
}

void RocksStore::expect(std::span<const ItemPtr> items) {
    expected_ = items;
    foundLeft_ = 0;
}

std::optional<codec::KeyEntry> RocksStore::lookUp(const std::string& key) {
    const rocksdb::Status status = db_->Get({}, keys_, key, &scratch_);
    if (status.IsNotFound()) {
        return std::nullopt;
    }
    check(status, "look a key up");
    return codec::decodeKeyEntry(scratch_);
}

void RocksStore::lookUpExpected() {
    foundCount_ = std::min(kLookUps, expected_.size());
    std::array<rocksdb::Slice, kLookUps> keys;
    std::array<rocksdb::PinnableSlice, kLookUps> values;
    std::array<rocksdb::Status, kLookUps> statuses;
    for (size_t i = 0; i < foundCount_; ++i) {
        setKey(found_[i].key, vbid_, expected_[i]->key());
        keys[i] = found_[i].key;
    }
    db_->MultiGet({}, keys_, foundCount_, keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < foundCount_; ++i) {
        found_[i].entry.reset();
        if (!statuses[i].IsNotFound()) {
            check(statuses[i], "look a key up");
            found_[i].entry = codec::decodeKeyEntry(view(values[i]));
        }
    }
    foundLeft_ = foundCount_;
}

bool RocksStore::put(const Item& item) {
    const NonBucketGuard guard;
    if (!expected_.empty() && expected_.front().get() == &item) {
        if (foundLeft_ == 0) {
            lookUpExpected();
        }
        const Found& found = found_[foundCount_ - foundLeft_--];
        expected_ = expected_.subspan(1);
        return put(item, found.key, found.entry);
    }
    setKey(found_.front().key, vbid_, item.key());
    foundLeft_ = 0;
    return put(item, found_.front().key, lookUp(found_.front().key));
}

bool RocksStore::put(const Item& item, const std::string& key,
                     const std::optional<codec::KeyEntry>& old) {
    if (old) {
        check(batch_->Delete(seqnos_, slice(codec::seqnoKey(vbid_, old->seqno))), "batch");
    }
    const auto entry = codec::encode({item.seqno(), !item.isDeletion()});
    check(batch_->Put(keys_, key, slice(entry)), "batch");

    const auto seqnoKey = codec::seqnoKey(vbid_, item.seqno());
    const auto header = codec::encodeHeader(item, old.has_value());
    const rocksdb::Slice keySlice = slice(seqnoKey);
    const std::array<rocksdb::Slice, 3> value{slice(header), slice(item.key()),
                                              slice(item.value())};
    check(batch_->Put(seqnos_, rocksdb::SliceParts(&keySlice, 1),
                      rocksdb::SliceParts(value.data(), 3)),
          "batch");
    ++(item.isDeletion() ? batchDeletes_ : batchSets_);
    return old && old->live;
}

void RocksStore::putState(rocksdb::WriteBatch& batch, Vbid vbid, const PersistedVbState& state) {
    check(batch.Put(states_, slice(codec::vbPrefix(vbid)), codec::encode(state)), "batch");
}

void RocksStore::end(const PersistedVbState& state) {
    const NonBucketGuard guard;
    putState(*batch_, vbid_, state);
}

bool RocksStore::commit() {
    const NonBucketGuard guard;
    const auto batch = std::move(batch_);
    lastBytes_ = batch->GetDataSize();
    if (!write(*batch)) {
        return false;
    }
    sets_.fetch_add(batchSets_, std::memory_order_relaxed);
    deletes_.fetch_add(batchDeletes_, std::memory_order_relaxed);
    return true;
}

void RocksStore::abandon() {
    const NonBucketGuard guard;
    batch_.reset();
}

uint64_t RocksStore::sumOf(const std::string& property) {
    uint64_t sum = 0;
    db_->GetAggregatedIntProperty(property, &sum);
    return sum;
}

bool RocksStore::saveVbState(Vbid vbid, const PersistedVbState& state) {
    const NonBucketGuard guard;
    rocksdb::WriteBatch batch;
    putState(batch, vbid, state);
    return write(batch);
}

std::optional<PersistedVbState> RocksStore::loadVbState(Vbid vbid) {
    BucketMemory* const caller = BucketMemoryGuard::current();
    const NonBucketGuard guard;
    std::string bytes;
    const rocksdb::Status status = db_->Get({}, states_, slice(codec::vbPrefix(vbid)), &bytes);
    if (status.IsNotFound()) {
        return std::nullopt;
    }
    check(status, "read a vBucket's state");
    const BucketMemoryGuard callerAgain(caller);  // the result belongs to the caller
    return codec::decodeVbState(bytes);
}

std::vector<Vbid> RocksStore::listPersistedVbuckets() {
    std::vector<Vbid> result;
    result.reserve(1024);  // before the guard: the result belongs to the caller
    const NonBucketGuard guard;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator({}, states_));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        result.push_back(codec::vbOf(view(iterator->key())));
    }
    check(iterator->status(), "list the vBuckets");
    return result;
}

bool RocksStore::delVBucket(Vbid vbid, const PersistedVbState& left) {
    const NonBucketGuard guard;
    rocksdb::WriteBatch batch;
    const auto begin = codec::vbPrefix(vbid);
    const std::string end = codec::vbEnd(vbid);
    check(batch.DeleteRange(keys_, slice(begin), end), "batch");
    check(batch.DeleteRange(seqnos_, slice(begin), end), "batch");
    putState(batch, vbid, left);
    return write(batch);
}

KVStore::Lookup RocksStore::read(Vbid vbid, std::string_view key, Reads reads, std::string& buffer,
                                 StoredDoc& doc) {
    const NonBucketGuard guard;
    // Both lookups in one snapshot: the document may move to another seqno in between.
    rocksdb::ManagedSnapshot snapshot(db_.get());
    rocksdb::ReadOptions options;
    options.snapshot = snapshot.snapshot();
    options.read_tier = reads == Reads::Disk ? rocksdb::kReadAllTier : rocksdb::kBlockCacheTier;
    rocksdb::Status status = db_->Get(options, keys_, keyOf(vbid, key), &buffer);
    if (status.IsNotFound()) {
        return Lookup::Missing;
    }
    if (status.IsIncomplete()) {
        return Lookup::NotInMemory;
    }
    check(status, "look a key up");
    const Seqno seqno = codec::decodeKeyEntry(buffer).seqno;
    status = db_->Get(options, seqnos_, slice(codec::seqnoKey(vbid, seqno)), &buffer);
    if (status.IsIncomplete()) {
        return Lookup::NotInMemory;
    }
    check(status, "read a document");
    doc = codec::decodeDoc(seqno, buffer);
    return Lookup::Found;
}

std::unique_ptr<SeqnoScan> RocksStore::openSeqnoScan(Vbid vbid, Seqno from, Seqno to) {
    const NonBucketGuard guard;
    rocksdb::ManagedSnapshot snapshot(db_.get());
    rocksdb::ReadOptions options;
    options.snapshot = snapshot.snapshot();
    std::string bytes;
    const rocksdb::Status status = db_->Get(options, states_, slice(codec::vbPrefix(vbid)), &bytes);
    if (status.IsNotFound()) {
        return nullptr;
    }
    check(status, "read a vBucket's state");
    auto state = codec::decodeVbState(bytes);
    return rocks::openScan(*db_, snapshot.snapshot(), seqnos_, std::move(state), vbid, from, to);
}

bool RocksStore::rollback(Vbid vbid, Seqno seqno) {
    const NonBucketGuard guard;
    auto state = loadVbState(vbid);
    const Seqno point = state ? state->rollbackPoints.lastUpTo(seqno) : Seqno{};
    if (point == Seqno{} || point < state->purgedSeqno) {
        return false;
    }
    rocksdb::WriteBatch batch;
    const auto end = codec::vbEnd(vbid);
    const rocksdb::Slice endSlice(end);
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &endSlice;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options, seqnos_));
    for (iterator->Seek(slice(codec::seqnoKey(vbid, next(point)))); iterator->Valid();
         iterator->Next()) {
        if (codec::replacedOlder(view(iterator->value()))) {
            return false;
        }
        const StoredDoc doc =
                codec::decodeDoc(codec::seqnoOf(view(iterator->key())), view(iterator->value()));
        check(batch.Delete(keys_, keyOf(vbid, doc.key)), "batch");
        check(batch.Delete(seqnos_, iterator->key()), "batch");
        if (batch.GetDataSize() > config_.rollbackBytes) {
            return false;
        }
    }
    check(iterator->status(), "roll back");
    state->highSeqno = point;
    state->snapshot = {point, point};
    state->rollbackPoints.removeAbove(point);
    putState(batch, vbid, *state);
    return write(batch);
}

bool RocksStore::removeTombstones(Vbid vbid,
                                  const std::vector<std::pair<std::string, Seqno>>& tombstones,
                                  const PersistedVbState& state) {
    const NonBucketGuard guard;
    rocksdb::WriteBatch batch;
    for (const auto& [key, seqno] : tombstones) {
        check(batch.Delete(keys_, keyOf(vbid, key)), "batch");
        check(batch.Delete(seqnos_, slice(codec::seqnoKey(vbid, seqno))), "batch");
    }
    putState(batch, vbid, state);
    return write(batch);
}

size_t RocksStore::countLive(Vbid vbid) {
    const NonBucketGuard guard;
    const auto end = codec::vbEnd(vbid);
    const rocksdb::Slice endSlice(end);
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &endSlice;
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options, keys_));
    size_t live = 0;
    for (iterator->Seek(slice(codec::vbPrefix(vbid))); iterator->Valid(); iterator->Next()) {
        live += codec::decodeKeyEntry(view(iterator->value())).live ? 1U : 0U;
    }
    check(iterator->status(), "count documents");
    return live;
}

KVStore::FileBytes RocksStore::fileBytes() {
    const NonBucketGuard guard;
    FileBytes bytes;
    uint64_t all = 0;
    uint64_t live = 0;
    if (db_->GetIntProperty(seqnos_, rocksdb::DB::Properties::kTotalSstFilesSize, &all) &&
        db_->GetIntProperty(seqnos_, rocksdb::DB::Properties::kLiveSstFilesSize, &live)) {
        bytes.current = live;
        bytes.replaced = all - std::min(all, live);
    }
    return bytes;
}

KVStoreStats RocksStore::stats() {
    const NonBucketGuard guard;
    KVStoreStats result{.commits = commits_.load(std::memory_order_relaxed),
                        .failedCommits = failedCommits_.load(std::memory_order_relaxed),
                        .syncs = syncs_.load(std::memory_order_relaxed),
                        .sets = sets_.load(std::memory_order_relaxed),
                        .deletes = deletes_.load(std::memory_order_relaxed),
                        .bytesWritten = bytesWritten_.load(std::memory_order_relaxed),
                        .cutOffBytes = cutOffBytes_,
                        .hasGaps = hasGaps_};
    using Properties = rocksdb::DB::Properties;
    result.memtableBytes = sumOf(Properties::kSizeAllMemTables);
    result.tableReaderBytes = sumOf(Properties::kEstimateTableReadersMem);
    result.diskBytes = sumOf(Properties::kLiveSstFilesSize);
    uint64_t cache = 0;
    if (db_->GetIntProperty(keys_, Properties::kBlockCacheUsage, &cache)) {
        result.blockCacheBytes += cache;
    }
    return result;
}

}  // namespace kv
