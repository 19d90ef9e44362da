// PowerCutStore: a KVStore whose unsynced commits are lost when the power is cut, around a real one
// that has its files in a directory. For tests of a store's guarantees.
//
// sync() copies the directory as the disk's content; PowerCut::strike(), with no store open,
// restores the copies. Threads: one.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "persistence/forwarding_store.h"

namespace kv {

/// The power of all stores that were made with it.
class PowerCut {
  public:
    /// Records that the disk has the content of the directory.
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
    /// Returns false if a file disappeared: a store removes its obsolete files in the background.
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

class PowerCutStore final : public ForwardingStore {
  public:
    PowerCutStore(std::unique_ptr<KVStore> real, std::string path, PowerCut& power)
        : ForwardingStore(std::move(real)), path_(std::move(path)), power_(power) {
        power_.synced(path_);  // data that an earlier power cut left is on disk
    }

    bool sync() override {
        if (!ForwardingStore::sync()) {
            return false;
        }
        power_.synced(path_);
        return true;
    }

  private:
    const std::string path_;
    PowerCut& power_;
};

}  // namespace kv
