// DataDir: the directory of a persistent bucket: one store per shard, a layout file and a mark of a
// clean stop.
//
// - layout.json: {"format":1,"shards":2,"vbuckets":1024}: written once; another layout is refused,
//   for documents would be looked for in the wrong shard;
// - clean: present while the bucket is closed after everything was stored;
// - shard-0, shard-1: the stores.
//
// What is written or removed here is on the disk when the call returns: it survives the loss of
// power. Thread rules: one thread.
#pragma once

#include <filesystem>
#include <string>

namespace kv {

class DataDir {
  public:
    /// Creates the directory or checks its layout. Throws StoreError.
    DataDir(std::filesystem::path path, unsigned shards, unsigned vbuckets);

    /// Nothing had been stored here before.
    [[nodiscard]] bool isNew() const { return new_; }
    /// Whether the last stop was clean; forgets it, so that a crash from now on is seen.
    bool takeCleanMark();
    /// The stores have synced.
    void markClean();
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::string shardPath(unsigned shard) const;

  private:
    std::filesystem::path path_;
    bool new_{false};
};

}  // namespace kv
