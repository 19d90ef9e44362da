// RocksStore: a KVStore in one RocksDB database, for one shard.
//
// Layout, three column families:
// - seqno: vBucket, seqno -> document. Every document once, in the order in which it was written:
//   backfill by seqno and warm-up read it from end to end without random access.
// - default: vBucket, key -> seqno, live. Where a key's document is; read before each write, so
//   that the document it replaces leaves the seqno index in the same transaction.
// - state: vBucket -> state, written with every transaction.
// The transactions of a commit are one WriteBatch. Every commit is in the operating system's hands
// before commit() returns, so it survives the death of the process; only with `sync` does it also
// survive the loss of power.
//
// Memory: bounded by the config, charged to no bucket. Thread rules: as KVStore says; one writer.
#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "persistence/config.h"
#include "persistence/doc_codec.h"
#include "persistence/kvstore.h"
#include "types/fd.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Slice;
class Status;
class WriteBatch;
}  // namespace rocksdb

namespace kv {

class LogNotes;
class RecoverableFiles;

class RocksStore final : public KVStore {
  public:
    /// Opens or creates the database in `path`. Throws StoreError.
    RocksStore(const std::string& path, const RocksConfig& config);
    ~RocksStore() override;

    void begin(Vbid vbid, size_t bytesHint) override;
    void expect(std::span<const ItemPtr> items) override;
    bool put(const Item& item) override;
    void end(const PersistedVbState& state) override;
    bool commit() override;
    void abandon() override;
    bool sync() override;
    bool emptyLog() override;
    void forgetGaps() override;

    bool saveVbState(Vbid vbid, const PersistedVbState& state) override;
    [[nodiscard]] std::optional<PersistedVbState> loadVbState(Vbid vbid) override;
    [[nodiscard]] std::vector<Vbid> listPersistedVbuckets() override;
    bool delVBucket(Vbid vbid, const PersistedVbState& left) override;
    [[nodiscard]] std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from,
                                                           Seqno to) override;
    bool rollback(Vbid vbid, Seqno seqno) override;
    bool removeTombstones(Vbid vbid, const std::vector<std::pair<std::string, Seqno>>& tombstones,
                          const PersistedVbState& state) override;
    [[nodiscard]] size_t countLive(Vbid vbid) override;
    [[nodiscard]] KVStoreStats stats() override;
    [[nodiscard]] FileBytes fileBytes() override;

  protected:
    Lookup read(Vbid vbid, std::string_view key, Reads reads, std::string& buffer,
                StoredDoc& doc) override;

  private:
    /// Refuses files that RocksDB would silently take for an older or an empty database, and
    /// determines how much of the log will be cut off. Throws StoreError.
    void checkFiles(const std::filesystem::path& path);
    /// The part of checkFiles() about the manifest in use.
    void checkManifest(const std::filesystem::path& manifest);
    /// The part of checkFiles() about the write-ahead logs.
    void checkLogs(const std::filesystem::path& path);
    /// Reports write-ahead logs that are missing, if others are there. Throws StoreError if later
    /// ones are.
    void checkForMissingLogs(const std::filesystem::path& newest);
    /// Opens the database in `path` into db_ and the handles.
    void openDatabase(const std::string& path);
    /// Records, before the database is repaired, that documents may be missing: later nothing shows
    /// it.
    void noteGaps();
    /// Returns whether a vBucket's last document is newer than the key index or its state, which
    /// are written together: RocksDB refuses a store with a damaged log, but not always one with
    /// two.
    bool documentsAreAhead();
    /// Rebuilds the key index from the documents, keeps only the newest version of each key, and
    /// raises the states to the seqnos of their documents: RocksDB has recovered each family
    /// without the damaged part of the log, but only if the family still needed it. Throws
    /// StoreError.
    void repair();
    /// The part of repair() about the state of a vBucket with documents up to `high`.
    PersistedVbState repairedState(Vbid vbid, Seqno high, Cas maxCas);
    /// Returns the seqno and state of a key's document. Throws StoreError.
    std::optional<codec::KeyEntry> lookUp(const std::string& key);
    /// Looks up the next expected items together, into found_.
    void lookUpExpected();
    bool write(rocksdb::WriteBatch& batch);
    /// Returns false if the directory was moved, removed or replaced. RocksDB would write on into
    /// files that the next start does not find.
    bool isInPlace();
    /// A property of RocksDB, summed over the families.
    uint64_t sumOf(const std::string& property);
    rocksdb::Status tryWrite(rocksdb::WriteBatch& batch);
    void putState(rocksdb::WriteBatch& batch, Vbid vbid, const PersistedVbState& state);
    bool put(const Item& item, const std::string& key, const std::optional<codec::KeyEntry>& old);
    static void setKey(std::string& to, Vbid vbid, std::string_view key);
    static std::string keyOf(Vbid vbid, std::string_view key);

    RocksConfig config_;
    const std::filesystem::path path_;
    Fd directory_;                   ///< open, so that no other one gets its number
    std::atomic<bool> away_{false};  ///< reported, and not back since
    const std::filesystem::path gapsNote_;
    const std::shared_ptr<LogNotes> logNotes_;
    std::string notedIdentity_;  ///< of the store with which the last start was made, if known
    uint64_t cutOffBytes_{0};    ///< of the log, at most
    bool hasGaps_{false};
    std::unique_ptr<RecoverableFiles> files_;
    std::unique_ptr<rocksdb::DB> db_;
    struct ReturnHandle {
        rocksdb::DB* db;
        void operator()(rocksdb::ColumnFamilyHandle* handle) const;
    };
    using Handle = std::unique_ptr<rocksdb::ColumnFamilyHandle, ReturnHandle>;
    std::vector<Handle> handles_;  ///< returned before the database is closed
    rocksdb::ColumnFamilyHandle* keys_{nullptr};
    rocksdb::ColumnFamilyHandle* seqnos_{nullptr};
    rocksdb::ColumnFamilyHandle* states_{nullptr};

    std::unique_ptr<rocksdb::WriteBatch> batch_;  ///< since the last commit
    uint64_t batchSets_{0};                       ///< documents in batch_
    uint64_t batchDeletes_{0};                    ///< tombstones in batch_
    size_t lastBytes_{0};                         ///< of the last commit
    std::string scratch_;  ///< value of the last key lookup, kept for its capacity
    static constexpr size_t kLookUps = 64;
    struct Found {
        std::string key;  ///< as in the key index; kept for its capacity
        std::optional<codec::KeyEntry> entry;
    };
    std::array<Found, kLookUps> found_;  ///< of expected_[foundFrom_] and so on
    std::span<const ItemPtr> expected_;  ///< the items still to be put
    size_t foundLeft_{0};                ///< number of unused entries at the end of found_
    size_t foundCount_{0};
    Vbid vbid_{};  ///< of the open transaction

    std::atomic<uint64_t> commits_{0};
    std::atomic<uint64_t> syncs_{0};
    std::atomic<uint64_t> failedCommits_{0};
    std::atomic<uint64_t> sets_{0};
    std::atomic<uint64_t> deletes_{0};
    std::atomic<uint64_t> bytesWritten_{0};
};

}  // namespace kv
