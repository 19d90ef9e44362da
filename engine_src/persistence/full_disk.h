// FullDisk: the operating system's files, as RocksDB sees them, on a disk that is full on request.
// For tests of data that a store's own write errors must not lose.
#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace kv {

class FullDisk final : public rocksdb::EnvWrapper {
  public:
    FullDisk() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}

    rocksdb::Status NewWritableFile(const std::string& name,
                                    std::unique_ptr<rocksdb::WritableFile>* file,
                                    const rocksdb::EnvOptions& options) override {
        if (noNewLogs && name.ends_with(".log")) {
            return rocksdb::Status::IOError("not made by the test");
        }
        rocksdb::Status status = target()->NewWritableFile(name, file, options);
        if (status.ok()) {
            *file = std::make_unique<File>(std::move(*file), *this, name.ends_with(".sst"));
        }
        return status;
    }

    rocksdb::Status NewDirectory(const std::string& name,
                                 std::unique_ptr<rocksdb::Directory>* directory) override {
        rocksdb::Status status = target()->NewDirectory(name, directory);
        if (status.ok()) {
            *directory = std::make_unique<Names>(std::move(*directory), *this);
        }
        return status;
    }
    rocksdb::Status NewRandomAccessFile(const std::string& name,
                                        std::unique_ptr<rocksdb::RandomAccessFile>* file,
                                        const rocksdb::EnvOptions& options) override {
        return unopenable ? rocksdb::Status::IOError("not opened by the test")
                          : target()->NewRandomAccessFile(name, file, options);
    }

    /// RocksDB asks for it at an error, and before each attempt to recover from it.
    rocksdb::Status GetFreeSpace(const std::string& path, uint64_t* bytes) override {
        ++spaceChecks;
        return target()->GetFreeSpace(path, bytes);
    }

    std::atomic<int> spaceChecks{0};
    std::atomic<bool> full{false};
    std::atomic<bool> broken{false};         ///< every write is an error
    std::atomic<bool> brokenTables{false};   ///< every write of a table file
    std::atomic<bool> fullForTables{false};  ///< for table files only
    std::atomic<bool> forgetsNames{false};   ///< directories cannot be synced
    std::atomic<bool> unopenable{false};     ///< no file can be opened for reading
    std::atomic<bool> tears{false};          ///< a half of what is refused is written
    std::atomic<bool> noNewLogs{false};      ///< no log can be made
    std::atomic<bool> stuckTables{false};    ///< no write of a table file returns
    /// Is called instead of syncing a file, if set. Set it while nothing uses the files.
    std::function<rocksdb::Status()> sync{};

  private:
    class Names final : public rocksdb::Directory {
      public:
        Names(std::unique_ptr<rocksdb::Directory> real, const FullDisk& disk)
            : real_(std::move(real)), disk_(disk) {}
        rocksdb::Status Fsync() override {
            return disk_.forgetsNames ? rocksdb::Status::IOError("not synced by the test")
                                      : real_->Fsync();
        }
        rocksdb::Status Close() override { return real_->Close(); }

      private:
        std::unique_ptr<rocksdb::Directory> real_;
        const FullDisk& disk_;
    };

    class File final : public rocksdb::WritableFileWrapper {
      public:
        File(std::unique_ptr<rocksdb::WritableFile> real, const FullDisk& disk, bool isTable)
            : rocksdb::WritableFileWrapper(real.get()),
              real_(std::move(real)),
              disk_(disk),
              isTable_(isTable) {}
        rocksdb::Status Append(const rocksdb::Slice& data) override {
            rocksdb::Status refused = refusal();
            if (!refused.ok() && disk_.tears) {
                real_->Append({data.data(), data.size() / 2}).PermitUncheckedError();
            }
            return refused.ok() ? real_->Append(data) : refused;
        }
        rocksdb::Status Append(const rocksdb::Slice& data,
                               const rocksdb::DataVerificationInfo& info) override {
            return refusal().ok() ? real_->Append(data, info) : Append(data);
        }
        rocksdb::Status Sync() override { return disk_.sync ? disk_.sync() : real_->Sync(); }

      private:
        [[nodiscard]] rocksdb::Status refusal() const {
            while (isTable_ && disk_.stuckTables) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            if (disk_.broken || (isTable_ && disk_.brokenTables)) {
                return rocksdb::Status::IOError("broken by the test");
            }
            if (disk_.full || (isTable_ && disk_.fullForTables)) {
                return rocksdb::Status::NoSpace("full by the test");
            }
            return rocksdb::Status::OK();
        }

        std::unique_ptr<rocksdb::WritableFile> real_;
        const FullDisk& disk_;
        const bool isTable_;
    };
};

}  // namespace kv
