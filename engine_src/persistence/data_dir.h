// DataDir: the directory of a persistent bucket: one store per shard, a layout file and a mark of a
// clean stop.
//
// - lock: locked by the process that uses the directory;
// - layout.json: {"format":1,"shards":2,"vbuckets":1024}: written once, when the stores have been
//   made; another layout is refused, because documents would be searched in the wrong shard;
// - creating: present until that; a start that finds it without a layout begins again;
// - clean: present while the bucket is closed after everything was stored; it records the content;
// - shard-0, shard-1: the stores;
// - shard-0.MANIFEST-000005: names the newest manifest that the store has used, and holds the
//   identity of the store;
// - shard-0-logs: names the write-ahead logs that the store needs (log_notes.h);
// - shard-0-gaps: the store was opened without some of its documents, and its vBuckets may still
//   have their old histories.
//
// Changes are on disk when the call returns: they survive the loss of power. Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "types/fd.h"
#include "types/ids.h"

namespace kv {

/// The record of a clean stop about a vBucket, with which the next start can verify that it finds
/// everything.
struct StoredVBucket {
    Vbid vbid{};
    uint8_t state{0};  ///< as in PersistedVbState
    VbUuid uuid{};     ///< of its newest history
    Seqno highSeqno{};
    uint64_t documents{0};  ///< live ones
    friend bool operator==(const StoredVBucket&, const StoredVBucket&) = default;
};

class DataDir {
  public:
    /// Creates the directory or checks its layout, and reads the mark. Removes the empty stores
    /// that an interrupted first start left. Throws StoreError, also if another DataDir has the
    /// directory.
    DataDir(std::filesystem::path path, unsigned shards, unsigned vbuckets);

    /// True if it has no layout yet: the stores, if there are any, were never used.
    [[nodiscard]] bool isNew() const { return new_; }
    /// Records that the stores of a new directory exist: one that is missing later was lost.
    void writeLayout() const;
    /// Nothing if the last stop was not clean, or if the mark is not readable, which is logged.
    [[nodiscard]] const std::optional<std::vector<StoredVBucket>>& cleanMark() const {
        return mark_;
    }
    /// True if the directory was copied since the mark was made. It has everything that the mark
    /// names, but the original may have gone on from there.
    [[nodiscard]] bool isCopy() const { return isCopy_; }
    /// Called before anything is changed, so that a crash from then on is noticed.
    void removeCleanMark();
    /// Records the content of the stores, which have synced.
    void markClean(const std::vector<StoredVBucket>& stored) const;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::string shardPath(unsigned shard) const;

  private:
    /// Prepares a directory without a layout.
    void begin() const;

    std::filesystem::path path_;
    Fd lock_;
    unsigned shards_;
    unsigned vbuckets_;
    bool new_{false};
    bool isCopy_{false};
    std::optional<std::vector<StoredVBucket>> mark_;
};

}  // namespace kv
