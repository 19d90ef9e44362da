#include "persistence/rocks_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "memory/bucket_memory.h"
#include "persistence/doc_codec.h"
#include "persistence/patient_files.h"

namespace kv {

namespace {

rocksdb::Slice slice(std::string_view text) {
    return {text.data(), text.size()};
}
template <size_t N>
rocksdb::Slice slice(const std::array<char, N>& bytes) {
    return {bytes.data(), N};
}
std::string_view view(const rocksdb::Slice& bytes) {
    return {bytes.data(), bytes.size()};
}

void check(const rocksdb::Status& status, const char* what) {
    if (!status.ok()) {
        throw StoreError(std::string(what) + ": " + status.ToString());
    }
}

rocksdb::CompressionType compressionOf(const std::string& name) {
    if (name == "none") {
        return rocksdb::kNoCompression;
    }
    if (name == "lz4") {
        return rocksdb::kLZ4Compression;
    }
    if (name == "snappy") {
        return rocksdb::kSnappyCompression;
    }
    if (name == "zstd") {
        return rocksdb::kZSTD;
    }
    throw StoreError("rocksdb_compression=" + name + ": expected none, lz4, snappy or zstd");
}

/// Hash buckets of a memtable's index by vBucket.
constexpr size_t kMemtableBuckets = 1024;
/// Of the skip list of a vBucket, good for 4^12 entries. RocksDB's own default for these lists is
/// 4, which makes them linear beyond some hundred entries.
constexpr int32_t kSkipListHeight = 12;
constexpr int32_t kSkipListBranching = 4;
/// RocksDB looks every second whether it can go on.
constexpr std::chrono::seconds kGivingUp{10};
/// Room for the vBucket's state in a transaction's batch.
constexpr size_t kStateBytes = 256;

class RocksSeqnoScan final : public SeqnoScan {
  public:
    RocksSeqnoScan(rocksdb::DB& db, std::unique_ptr<rocksdb::ManagedSnapshot> snapshot,
                   rocksdb::ColumnFamilyHandle* family, PersistedVbState state, Vbid vbid,
                   Seqno from, Seqno to)
        : snapshot_(std::move(snapshot)),
          state_(std::move(state)),
          end_(codec::seqnoKey(vbid, after(to))),
          endSlice_(slice(end_)) {
        rocksdb::ReadOptions options;
        options.snapshot = snapshot_->snapshot();
        options.iterate_upper_bound = &endSlice_;
        options.fill_cache = false;
        iterator_.reset(db.NewIterator(options, family));
        iterator_->Seek(slice(codec::seqnoKey(vbid, from)));
    }
    RocksSeqnoScan(const RocksSeqnoScan&) = delete;
    RocksSeqnoScan& operator=(const RocksSeqnoScan&) = delete;
    ~RocksSeqnoScan() override {
        const NonBucketGuard guard;
        state_ = {};
        iterator_.reset();
        snapshot_.reset();
    }

    bool next(StoredDoc& doc) override {
        const NonBucketGuard guard;
        if (started_ && iterator_->Valid()) {
            iterator_->Next();
        }
        started_ = true;
        if (!iterator_->Valid()) {
            check(iterator_->status(), "scan by seqno");
            return false;
        }
        doc = codec::decodeDoc(codec::seqnoOf(view(iterator_->key())), view(iterator_->value()));
        return true;
    }
    [[nodiscard]] const PersistedVbState& state() const override { return state_; }

  private:
    static Seqno after(Seqno to) { return to.get() == ~uint64_t{0} ? to : kv::next(to); }

    std::unique_ptr<rocksdb::ManagedSnapshot> snapshot_;
    PersistedVbState state_;
    std::array<char, 10> end_;
    rocksdb::Slice endSlice_;
    std::unique_ptr<rocksdb::Iterator> iterator_;
    bool started_{false};
};

}  // namespace

RocksStore::RocksStore(const std::string& path, const RocksConfig& config) : config_(config) {
    const NonBucketGuard guard;
    files_ = std::make_unique<PatientFiles>(config.env != nullptr ? *config.env
                                                                  : *rocksdb::Env::Default());
    rocksdb::DBOptions options;
    options.env = files_->env();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.db_write_buffer_size = config.writeBufferBytes;
    options.max_total_wal_size = 4 * config.writeBufferBytes;
    options.max_background_jobs = 2;
    options.stats_dump_period_sec = 0;
    options.info_log_level = rocksdb::WARN_LEVEL;
    options.keep_log_file_num = 2;
    options.max_open_files = 256;
    options.enable_pipelined_write = false;
    options.allow_concurrent_memtable_write = false;  // one writer

    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(config.blockCacheBytes, /*num_shard_bits=*/2);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.cache_index_and_filter_blocks = true;

    rocksdb::ColumnFamilyOptions keys;
    keys.write_buffer_size = config.writeBufferBytes / 2;
    keys.compression = compressionOf(config.compression);
    keys.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    // One skip list per vBucket inside a memtable: shorter searches. Every reader of these two
    // families stays within one vBucket, which is what this needs.
    keys.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(sizeof(uint16_t)));
    keys.memtable_factory.reset(rocksdb::NewHashSkipListRepFactory(
            kMemtableBuckets, kSkipListHeight, kSkipListBranching));
    rocksdb::ColumnFamilyOptions seqnos = keys;
    // Most lookups of the key index are for recent or unknown keys: a bloom filter over the
    // memtable answers the latter.
    keys.memtable_prefix_bloom_size_ratio = 0.05;
    keys.memtable_whole_key_filtering = true;
    table.filter_policy.reset();  // the seqno index is read by position only
    seqnos.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::ColumnFamilyOptions states;
    states.write_buffer_size = config.writeBufferBytes / 8;
    states.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));  // the same cache

    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(
                  options, path,
                  {{rocksdb::kDefaultColumnFamilyName, keys}, {"seqno", seqnos}, {"state", states}},
                  &handles_, &db),
          ("open the store in " + path).c_str());
    db_.reset(db);
    keys_ = handles_[0];
    seqnos_ = handles_[1];
    states_ = handles_[2];
}

RocksStore::~RocksStore() {
    const NonBucketGuard guard;
    batch_.reset();
    if (files_->giveUp()) {
        const auto limit = std::chrono::steady_clock::now() + kGivingUp;
        while (db_->Resume().IsBusy() && std::chrono::steady_clock::now() < limit) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
        db_->DestroyColumnFamilyHandle(handle);
    }
    db_.reset();
    files_.reset();
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
        // Other transactions may follow: likely as much as the last time.
        batch_ = std::make_unique<rocksdb::WriteBatch>(
                std::max(bytesHint + kStateBytes, lastBytes_));
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
    auto& counter = item.isDeletion() ? deletes_ : sets_;
    counter.fetch_add(1, std::memory_order_relaxed);
    return old && old->live;
}

void RocksStore::putState(rocksdb::WriteBatch& batch, Vbid vbid, const PersistedVbState& state) {
    check(batch.Put(states_, slice(codec::vbPrefix(vbid)), codec::encode(state)), "batch");
}

bool RocksStore::write(rocksdb::WriteBatch& batch) {
    rocksdb::WriteOptions options;
    options.sync = config_.sync;
    bytesWritten_.fetch_add(batch.GetDataSize(), std::memory_order_relaxed);
    if (const rocksdb::Status status = db_->Write(options, &batch); !status.ok()) {
        failedCommits_.fetch_add(1, std::memory_order_relaxed);
        // After an I/O error RocksDB refuses writes until it has got over it, or is told to go on;
        // the caller retries the transaction.
        db_->Resume().PermitUncheckedError();
        return false;
    }
    commits_.fetch_add(1, std::memory_order_relaxed);
    return true;
}

void RocksStore::end(const PersistedVbState& state) {
    const NonBucketGuard guard;
    putState(*batch_, vbid_, state);
}

bool RocksStore::commit() {
    const NonBucketGuard guard;
    const auto batch = std::move(batch_);
    lastBytes_ = batch->GetDataSize();
    return write(*batch);
}

void RocksStore::abandon() {
    const NonBucketGuard guard;
    batch_.reset();
}

bool RocksStore::sync() {
    const NonBucketGuard guard;
    // Table files and the manifest are synced when they are written: the log is what is left.
    const bool synced = db_->SyncWAL().ok();
    syncs_.fetch_add(synced ? 1U : 0U, std::memory_order_relaxed);
    return synced;
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
    const BucketMemoryGuard callerAgain(caller);  // the result is the caller's
    return codec::decodeVbState(bytes);
}

std::vector<Vbid> RocksStore::listPersistedVbuckets() {
    std::vector<Vbid> result;
    result.reserve(1024);  // before the guard: the result is the caller's
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

bool RocksStore::read(Vbid vbid, std::string_view key, std::string& buffer, StoredDoc& doc) {
    const NonBucketGuard guard;
    // Both lookups in one snapshot: the document may move to another seqno in between.
    rocksdb::ManagedSnapshot snapshot(db_.get());
    rocksdb::ReadOptions options;
    options.snapshot = snapshot.snapshot();
    rocksdb::Status status = db_->Get(options, keys_, keyOf(vbid, key), &buffer);
    if (status.IsNotFound()) {
        return false;
    }
    check(status, "look a key up");
    const Seqno seqno = codec::decodeKeyEntry(buffer).seqno;
    status = db_->Get(options, seqnos_, slice(codec::seqnoKey(vbid, seqno)), &buffer);
    check(status, "read a document");
    doc = codec::decodeDoc(seqno, buffer);
    return true;
}

std::unique_ptr<SeqnoScan> RocksStore::openSeqnoScan(Vbid vbid, Seqno from, Seqno to) {
    const NonBucketGuard guard;
    auto snapshot = std::make_unique<rocksdb::ManagedSnapshot>(db_.get());
    rocksdb::ReadOptions options;
    options.snapshot = snapshot->snapshot();
    std::string bytes;
    const rocksdb::Status status = db_->Get(options, states_, slice(codec::vbPrefix(vbid)), &bytes);
    if (status.IsNotFound()) {
        return nullptr;
    }
    check(status, "read a vBucket's state");
    auto state = codec::decodeVbState(bytes);
    return std::make_unique<RocksSeqnoScan>(*db_, std::move(snapshot), seqnos_, std::move(state),
                                            vbid, from, to);
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

KVStoreStats RocksStore::stats() {
    const NonBucketGuard guard;
    KVStoreStats result{.commits = commits_.load(std::memory_order_relaxed),
                        .failedCommits = failedCommits_.load(std::memory_order_relaxed),
                        .syncs = syncs_.load(std::memory_order_relaxed),
                        .sets = sets_.load(std::memory_order_relaxed),
                        .deletes = deletes_.load(std::memory_order_relaxed),
                        .bytesWritten = bytesWritten_.load(std::memory_order_relaxed)};
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
        uint64_t value = 0;
        if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kSizeAllMemTables, &value)) {
            result.memtableBytes += value;
        }
        if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kEstimateTableReadersMem,
                                &value)) {
            result.tableReaderBytes += value;
        }
        if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kLiveSstFilesSize, &value)) {
            result.diskBytes += value;
        }
    }
    uint64_t cache = 0;
    if (db_->GetIntProperty(keys_, rocksdb::DB::Properties::kBlockCacheUsage, &cache)) {
        result.blockCacheBytes += cache;
    }
    return result;
}

}  // namespace kv
