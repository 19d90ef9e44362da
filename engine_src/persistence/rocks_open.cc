// Opens a store: the checks that RocksDB itself does not make, and its options.
#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "logging/log.h"
#include "persistence/checked_file.h"
#include "persistence/log_notes.h"
#include "persistence/log_scan.h"
#include "persistence/recoverable_files.h"
#include "persistence/rocks_status.h"
#include "persistence/rocks_store.h"

namespace kv {

using rocks::check;

namespace {

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
/// Height of the skip list of a vBucket, good for 4^12 entries. RocksDB's own default for these
/// lists is 4, which makes them linear beyond some hundred entries.
constexpr int32_t kSkipListHeight = 12;
constexpr int32_t kSkipListBranching = 4;

/// What RocksDB reports, in the engine's log. Its own log is a file next to the documents: on a
/// full disk the first line of it fails, and at the second one a build with assertions ends the
/// process.
class RocksLog final : public rocksdb::Logger {
  public:
    explicit RocksLog(std::string path)
        : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), path_(std::move(path)) {}
    using Logger::Logv;
    void Logv(const char* format, va_list arguments) override {
        std::array<char, 1024> text{};
        std::vsnprintf(text.data(), text.size(), format, arguments);
        std::string_view line = text.data();
        while (line.ends_with('\n')) {
            line.remove_suffix(1);
        }
        log::warn("RocksDB, {}: {}", path_, line);
    }
    void LogHeader(const char* /*format*/, va_list /*arguments*/) override {}

  private:
    const std::string path_;
};

rocksdb::DBOptions databaseOptions(const RocksConfig& config, const std::string& path,
                                   rocksdb::Env* env) {
    rocksdb::DBOptions options;
    options.env = env;
    options.create_if_missing = config.mayCreate;
    options.create_missing_column_families = true;
    options.db_write_buffer_size = config.writeBufferBytes;
    options.max_total_wal_size = 4 * config.writeBufferBytes;
    options.max_background_jobs = 2;
    options.stats_dump_period_sec = 0;
    options.info_log = std::make_shared<RocksLog>(path);
    options.max_open_files = RocksConfig::kTableFiles;
    options.enable_pipelined_write = false;
    options.allow_concurrent_memtable_write = false;  // one writer
    options.wal_recovery_mode = config.needsWholeLog
                                        ? rocksdb::WALRecoveryMode::kAbsoluteConsistency
                                        : rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    options.track_and_verify_wals_in_manifest = true;
    options.write_dbid_to_manifest = true;       // where it has a checksum
    options.avoid_flush_during_shutdown = true;  // the log has everything
    return options;
}

/// Returns the families of documents by key, of documents by seqno, and of states.
std::vector<rocksdb::ColumnFamilyDescriptor> familiesOf(const RocksConfig& config) {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(config.blockCacheBytes, /*num_shard_bits=*/2);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.cache_index_and_filter_blocks = true;

    rocksdb::ColumnFamilyOptions keys;
    keys.write_buffer_size = config.writeBufferBytes / 2;
    keys.compression = compressionOf(config.compression);
    keys.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    // One skip list per vBucket inside a memtable: shorter searches. Every reader of these two
    // families stays within one vBucket, which this requires.
    keys.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(sizeof(uint16_t)));
    keys.memtable_factory.reset(rocksdb::NewHashSkipListRepFactory(
            kMemtableBuckets, kSkipListHeight, kSkipListBranching));
    rocksdb::ColumnFamilyOptions seqnos = keys;
    // Most lookups of the key index are for recent or unknown keys: a bloom filter over the
    // memtable answers the latter.
    keys.memtable_prefix_bloom_size_ratio = 0.05;
    keys.memtable_whole_key_filtering = true;
    table.filter_policy.reset();  // the seqno index is read only by position
    seqnos.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::ColumnFamilyOptions states;
    states.write_buffer_size = config.writeBufferBytes / 8;
    states.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));  // the same cache
    return {{rocksdb::kDefaultColumnFamilyName, keys}, {"seqno", seqnos}, {"state", states}};
}

/// The numbers in their names have at least six digits.
bool isOlder(const std::string& file, const std::string& other) {
    return std::pair(file.size(), file) < std::pair(other.size(), other);
}

/// The write-ahead logs of a database, oldest first.
std::vector<std::filesystem::path> logsIn(const std::filesystem::path& path) {
    std::vector<std::filesystem::path> logs;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
        if (entry.path().extension() == ".log") {
            logs.push_back(entry.path());
        }
    }
    std::sort(logs.begin(), logs.end(), [](const auto& log, const auto& other) {
        return isOlder(log.filename(), other.filename());
    });
    return logs;
}

std::string firstLine(const std::filesystem::path& file) {
    std::string line;
    std::getline(std::ifstream(file), line);
    return line;
}

/// Returns the name of the manifest that a store uses; nothing if the store is missing.
std::string currentManifest(const std::filesystem::path& path) {
    return firstLine(path / "CURRENT");
}

/// The names of the manifests with which a store was opened, from the notes next to it: shard-0 and
/// shard-0.MANIFEST-000016. Older notes are removed, but may come back from a copy.
std::vector<std::string> notedManifests(const std::filesystem::path& path) {
    const std::string prefix = path.filename().string() + ".";
    std::vector<std::string> noted;
    for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
        if (const std::string name = entry.path().filename().string(); name.starts_with(prefix)) {
            noted.push_back(name.substr(prefix.size()));
        }
    }
    return noted;
}

std::filesystem::path noteOf(const std::filesystem::path& path, const std::string& manifest) {
    return path.string() + "." + manifest;
}

/// The note also holds the identity of the store, by which one of another directory is detected.
void noteManifest(const std::filesystem::path& path, const std::string& identity) {
    const std::string manifest = currentManifest(path);
    writeWhole(noteOf(path, manifest), identity);
    for (const std::string& noted : notedManifests(path)) {
        std::error_code ignored;  // older than that of this start
        if (noted != manifest) {
            std::filesystem::remove(noteOf(path, noted), ignored);
        }
    }
}

}  // namespace

void RocksStore::openDatabase(const std::string& path) {
    files_ = std::make_unique<RecoverableFiles>(
            config_.env != nullptr ? *config_.env : *rocksdb::Env::Default(), logNotes_,
            config_.sync ? Stored::Synced : Stored::Written);
    rocksdb::DBOptions options = databaseOptions(config_, path, files_->env());
    const auto families = familiesOf(config_);
    if (hasGaps_) {
        noteGaps();
    }
    rocksdb::DB* db = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::Status status = rocksdb::DB::Open(options, path, families, &handles, &db);
    if (status.IsCorruption() && config_.acceptLoss) {
        noteGaps();
        log::error("the store in {} is damaged, and what cannot be read is left out: {}", path,
                   status.ToString());
        options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
        options.track_and_verify_wals_in_manifest = false;
        status = rocksdb::DB::Open(options, path, families, &handles, &db);
    }
    check(status, ("open the store in " + path).c_str());
    db_.reset(db);
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
        handles_.push_back(Handle(handle, {db}));
    }
    std::string identity;
    check(db_->GetDbIdentity(identity), ("read the identity of the store in " + path).c_str());
    if (!notedIdentity_.empty() && notedIdentity_ != identity) {
        const std::string what = path + " is another store than the one that was used here";
        if (!config_.acceptLoss) {
            throw DamageError(what);
        }
        log::error("{}", what);
        noteGaps();
    }
    noteManifest(path, identity);
    if (const auto logs = logsIn(path); !logs.empty()) {
        // What the others had is in table files by now.
        logNotes_->beginWith(logs.back().filename().string());
    }
    keys_ = handles[0];
    seqnos_ = handles[1];
    states_ = handles[2];
}

void RocksStore::noteGaps() {
    hasGaps_ = true;
    writeWhole(gapsNote_, "");
}

void RocksStore::forgetGaps() {
    const NonBucketGuard guard;
    if (sync()) {
        std::error_code error;
        std::filesystem::remove(gapsNote_, error);
        if (!error && syncPath(gapsNote_.parent_path())) {
            return;
        }
    }
    throw StoreError("cannot remove " + gapsNote_.string());
}

void RocksStore::checkFiles(const std::filesystem::path& path) {
    if (config_.mayCreate) {
        std::filesystem::create_directories(path);  // else RocksDB reports that it is missing
    }
    const std::string manifest = currentManifest(path);
    if (manifest.empty()) {
        if (!config_.mayCreate) {
            throw DamageError("there is no store in " + path.string() + " any more");
        }
        return;
    }
    // The table files that an older one does not know would be removed.
    auto noted = config_.mayCreate ? std::vector<std::string>() : notedManifests(path);
    // A start that was killed may have left a note that it was writing.
    std::erase_if(noted, [](const std::string& name) { return name.ends_with(".new"); });
    const auto newest = std::max_element(noted.begin(), noted.end(), isOlder);
    if (newest != noted.end() && isOlder(manifest, *newest)) {
        hasGaps_ = true;
        if (!config_.acceptLoss) {
            throw DamageError(fmt::format("{} names {}, but the store has used {}: it is older",
                                          (path / "CURRENT").string(), manifest, *newest));
        }
    }
    if (newest != noted.end()) {
        notedIdentity_ = firstLine(noteOf(path, *newest));
    }
    if (std::filesystem::exists(path / manifest)) {  // RocksDB itself reports a missing one
        checkManifest(path / manifest);
    }
    if (!config_.needsWholeLog) {  // RocksDB refuses any other
        checkLogs(path);
    }
}

void RocksStore::checkManifest(const std::filesystem::path& manifest) {
    const LogScan scan = scanLog(manifest);
    const bool gaps = scan.damaged || (config_.needsWholeLog && !scan.isWhole());
    hasGaps_ = hasGaps_ || gaps;
    if (gaps && !config_.acceptLoss) {
        throw DamageError(fmt::format("{} is damaged: {} of its {} bytes can be read",
                                      manifest.string(), scan.wholeBytes, scan.bytes));
    }
    if (!scan.isWhole()) {
        log::warn("{}: {} of its {} bytes cannot be read", manifest.string(),
                  scan.bytes - scan.wholeBytes, scan.bytes);
    }
}

void RocksStore::checkLogs(const std::filesystem::path& path) {
    const auto logs = logsIn(path);
    if (logs.empty()) {
        hasGaps_ = true;
        if (!config_.acceptLoss) {
            throw DamageError("the write-ahead log of " + path.string() + " is missing");
        }
    } else {
        checkForMissingLogs(logs.back());
    }
    uint64_t bytes = 0;
    std::string from;
    for (const auto& log : logs) {
        const LogScan scan = scanLog(log);
        bytes += scan.bytes;
        if (!from.empty()) {
            cutOffBytes_ += scan.bytes;
        } else if (!scan.isWhole()) {
            cutOffBytes_ = scan.bytes - scan.wholeBytes;
            from = fmt::format("byte {} of {}", scan.wholeBytes, log.string());
        }
    }
    if (!from.empty()) {
        log::warn(
                "up to {} of {} bytes of the write-ahead log are cut off, from {} on; the writes "
                "in them are lost",
                cutOffBytes_, bytes, from);
    }
}

void RocksStore::checkForMissingLogs(const std::filesystem::path& newest) {
    for (const std::string& name : logNotes_->names()) {
        const auto log = newest.parent_path() / name;
        if (std::filesystem::exists(log)) {
            continue;
        }
        if (isOlder(newest.filename(), name)) {
            // A power cut leaves that if nothing has synced the directory since.
            log::warn("the write-ahead log {} is missing; the writes in it are lost", log.string());
            continue;
        }
        // Without it, the later ones lead to a state that never was.
        hasGaps_ = true;
        if (!config_.acceptLoss) {
            throw DamageError("the write-ahead log " + log.string() + " is missing");
        }
    }
}

}  // namespace kv
