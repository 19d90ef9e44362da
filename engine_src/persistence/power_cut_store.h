// PowerCutStore: a KVStore whose unsynced commits are lost when the power is cut, around a real one
// that has its files in a directory. For tests of what may be promised of a store.
//
// sync() copies the directory, for what the disk has; PowerCut::strike(), with no store open, puts
// the copies back. One thread.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "persistence/kvstore.h"

namespace kv {

/// The power of all stores that were made with it.
class PowerCut {
  public:
    /// The disk has what is in the directory.
    void synced(const std::string& path) {
        paths_.insert(path);
        while (!copied(path)) {
        }
        ++syncs;
    }
    void strike() {
        for (const std::string& path : paths_) {
            std::filesystem::remove_all(path);
            std::filesystem::copy(copyOf(path), path, std::filesystem::copy_options::recursive);
        }
    }
    int syncs{0};

  private:
    /// False when a file went away meanwhile: a store removes its obsolete files in the background.
    static bool copied(const std::string& path) {
        std::error_code error;
        std::filesystem::remove_all(copyOf(path));
        std::filesystem::copy(path, copyOf(path), std::filesystem::copy_options::recursive, error);
        if (error && error != std::errc::no_such_file_or_directory) {
            throw std::filesystem::filesystem_error("copy", path, copyOf(path), error);
        }
        return !error;
    }
    static std::string copyOf(const std::string& path) { return path + ".disk"; }
    std::set<std::string> paths_;
};

class PowerCutStore final : public KVStore {
  public:
    PowerCutStore(std::unique_ptr<KVStore> real, std::string path, PowerCut& power)
        : real_(std::move(real)), path_(std::move(path)), power_(power) {
        power_.synced(path_);  // what an earlier power cut left is on the disk
    }

    void begin(Vbid vbid, size_t bytesHint) override { real_->begin(vbid, bytesHint); }
    bool put(const Item& item) override { return real_->put(item); }
    void end(const PersistedVbState& state) override { real_->end(state); }
    bool commit() override { return real_->commit(); }
    void abandon() override { real_->abandon(); }
    bool sync() override {
        if (!real_->sync()) {
            return false;
        }
        power_.synced(path_);
        return true;
    }
    bool saveVbState(Vbid vbid, const PersistedVbState& state) override {
        return real_->saveVbState(vbid, state);
    }
    std::optional<PersistedVbState> loadVbState(Vbid vbid) override {
        return real_->loadVbState(vbid);
    }
    std::vector<Vbid> listPersistedVbuckets() override { return real_->listPersistedVbuckets(); }
    bool delVBucket(Vbid vbid) override { return real_->delVBucket(vbid); }
    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from, Seqno to) override {
        return real_->openSeqnoScan(vbid, from, to);
    }
    bool rollback(Vbid vbid, Seqno seqno) override { return real_->rollback(vbid, seqno); }
    bool removeTombstones(Vbid vbid, const std::vector<std::pair<std::string, Seqno>>& tombstones,
                          const PersistedVbState& state) override {
        return real_->removeTombstones(vbid, tombstones, state);
    }
    size_t countLive(Vbid vbid) override { return real_->countLive(vbid); }
    KVStoreStats stats() override { return real_->stats(); }

  protected:
    bool read(Vbid, std::string_view, std::string&, StoredDoc&) override {
        throw StoreError("no reads by key here");
    }

  private:
    std::unique_ptr<KVStore> real_;
    const std::string path_;
    PowerCut& power_;
};

}  // namespace kv
